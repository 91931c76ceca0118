"""Whether the newest commits show that a range has data."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from streams import new_offset, new_stream
from table_histories import Table, commit, data_file, histories

from airflow_provider_cdc.engine.core.change_sets.has_data_scan import DataProbe, HasDataScan
from airflow_provider_cdc.engine.core.delta.log_actions import ROW_ID_SETTING, Commit
from airflow_provider_cdc.engine.core.delta.tracking import ENABLED
from airflow_provider_cdc.engine.core.model.stream import AppendSemantics, Stream, StreamMode
from airflow_provider_cdc.engine.storage.sources.source_log import SourceRange

STANDARD = new_stream()
INSERTS = new_stream(mode=StreamMode.APPEND_ONLY, append_semantics=AppendSemantics.INSERTED)
SURVIVING = new_stream(mode=StreamMode.APPEND_ONLY, append_semantics=AppendSemantics.SURVIVING)


def look(stream: Stream, commits: list[Commit]) -> DataProbe:
    recent = HasDataScan(stream)
    for item in reversed(commits):
        finding = recent.take(item)
        if finding is not DataProbe.NOTHING_YET:
            return finding
    return DataProbe.NOTHING_YET


@given(histories(), st.sampled_from([STANDARD, INSERTS, SURVIVING]))
def test_data_in_the_newest_commits_is_data_in_the_whole_range(
    history: tuple[Table, list[Commit], list[Table]], stream: Stream
) -> None:
    _, commits, _ = history
    whole = SourceRange(stream, new_offset(), new_offset(len(commits)), tuple(commits))

    if look(stream, commits) is DataProbe.DATA:
        assert whole.candidates.are_there


@pytest.mark.parametrize("stream", [STANDARD, INSERTS, SURVIVING])
def test_file_of_new_rows_is_data(stream: Stream) -> None:
    assert HasDataScan(stream).take(commit(9, (data_file("a", 9),))) is DataProbe.DATA


def test_file_of_new_rows_that_is_removed_later_is_data_only_for_inserts() -> None:
    born = data_file("a", 8)
    commits = [commit(8, (born,)), commit(9, (), (born,))]

    assert look(STANDARD, commits) is DataProbe.NOTHING_YET
    assert look(SURVIVING, commits) is DataProbe.NOTHING_YET
    assert look(INSERTS, commits) is DataProbe.DATA


def test_deletion_is_data_only_for_a_standard_stream() -> None:
    removal = commit(9, (), (data_file("a", 0),))

    assert HasDataScan(STANDARD).take(removal) is DataProbe.DATA
    assert HasDataScan(INSERTS).take(removal) is DataProbe.NOTHING_YET
    assert HasDataScan(SURVIVING).take(removal) is DataProbe.NOTHING_YET


def test_grown_vector_is_data_only_for_a_standard_stream() -> None:
    grown = commit(9, (data_file("a", 0, 2),), (data_file("a", 0, 1),))

    assert HasDataScan(STANDARD).take(grown) is DataProbe.DATA
    assert HasDataScan(SURVIVING).take(grown) is DataProbe.NOTHING_YET
    assert HasDataScan(INSERTS).take(grown) is DataProbe.NOTHING_YET


def test_rewritten_files_are_not_data() -> None:
    rewritten = commit(9, (data_file("b", 9, change=False),), (data_file("a", change=False),))
    optimised = replace(rewritten, operation="OPTIMIZE", preserves_row_ids=True)

    assert HasDataScan(STANDARD).take(optimised) is DataProbe.NOTHING_YET
    # The commit does not show whether these are the same rows.
    assert HasDataScan(STANDARD).take(rewritten) is DataProbe.UNCLEAR


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_files_that_an_update_rewrote_are_data_only_for_standard_streams(operation: str) -> None:
    rewritten = commit(9, (data_file("b", 9),), (data_file("a"),), operation)
    kept = replace(rewritten, preserves_row_ids=True)

    assert HasDataScan(STANDARD).take(kept) is DataProbe.DATA
    assert HasDataScan(INSERTS).take(kept) is DataProbe.NOTHING_YET
    assert HasDataScan(SURVIVING).take(kept) is DataProbe.NOTHING_YET


def test_commit_that_may_undo_or_end_change_tracking_is_unclear() -> None:
    insert = commit(9, (data_file("a", 9),))

    for unclear in (
        replace(insert, operation="RESTORE"),
        replace(insert, metadata={}),
        replace(insert, protocol={}),
        replace(insert, operation="UPDATE", removes=(data_file("b"),)),
    ):
        assert HasDataScan(STANDARD).take(unclear) is DataProbe.UNCLEAR


def test_commit_with_metadata_is_unclear_only_if_tracking_changes() -> None:
    insert = commit(9, (data_file("a", 9),))
    kept = {"id": STANDARD.source.table_id, "configuration": {ENABLED: "true", "x": "y"}}

    assert HasDataScan(STANDARD).take(replace(insert, metadata=kept)) is DataProbe.DATA
    for other in (
        kept | {"id": "another table"},
        kept | {"configuration": {ENABLED: "false"}},
        kept | {"configuration": {ENABLED: "true", ROW_ID_SETTING: "another"}},
    ):
        assert HasDataScan(STANDARD).take(replace(insert, metadata=other)) is DataProbe.UNCLEAR


def test_file_without_row_ids_is_not_data_yet() -> None:
    untracked = structs.replace(data_file("a", 9), base_row_id=None)

    assert HasDataScan(STANDARD).take(commit(9, (untracked,))) is DataProbe.NOTHING_YET
