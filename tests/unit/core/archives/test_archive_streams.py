"""The stream of an archive, and writes of others to an archive, by their logs alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streams import NOON, new_commit, new_offset, new_stream
from table_histories import data_file

from airflow_provider_cdc.engine.core.archives.archive_stream import (
    consumer_of,
    moved_by_others,
    stream_of,
)
from airflow_provider_cdc.engine.core.archives.definition import Archive, Era
from airflow_provider_cdc.engine.core.archives.foreign_changes import ForeignChanges
from airflow_provider_cdc.engine.core.delta.log_actions import Commit
from airflow_provider_cdc.engine.core.delta.table_schema import Layout
from airflow_provider_cdc.engine.core.model.outcomes import Outcome, StreamOutcome
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.core.names import stream_name, table_name

METADATA = {"schemaString": '{"fields": []}', "configuration": {}}
FIELD = '{"name": "c", "type": "integer", "nullable": true, "metadata": {}}'
OTHER = {"schemaString": f'{{"fields": [{FIELD}]}}', "configuration": {}}
LAYOUT = Layout.of(METADATA)


@pytest.mark.parametrize(
    "name", ["lake.log", "`a b`.`ü x`", "/lake/log/", "s3://b/x y/log", f"/lake/{'x' * 300}", "/1"]
)
def test_name_of_the_stream_of_an_archive_is_valid(name: str) -> None:
    archive = table_name(name)

    assert stream_name(stream_of(archive)) == stream_of(archive)
    assert stream_of(archive) != stream_of(table_name("other"))


def archive(after: int = 0, *, is_whole: bool = False) -> Archive:
    era = Era(0, NOON, 0, LAYOUT, {})
    return Archive("l", "l", "/l", "t", "src", after, NOON, is_whole, "s", "i", (era,), LAYOUT)


def stream_at(version: int, through: int | None, consumer: str | None = None) -> Stream:
    stream = new_stream("s", offset=new_offset(version))
    if through is None:
        return stream
    taken = StreamOutcome(stream.stream_id, "s", 0, through, "feed", {})
    outcome = Outcome("c", "x", (taken,), (), 1.0)
    consumer = consumer_of("s") if consumer is None else consumer
    return replace(stream, last_outcome=outcome, last_consumer=consumer, last_consumed_at=NOON)


def change(version: int) -> Commit:
    return new_commit(version, "WRITE", adds=(data_file(f"f{version}", version),))


@pytest.mark.parametrize(
    ("stream", "newest", "commits", "cause"),
    [
        (stream_at(0, None), None, [], None),
        (stream_at(5, 5), 4, [], None),
        (stream_at(7, 5), 5, [new_commit(6), new_commit(7, metadata=METADATA)], None),
        (stream_at(7, 5), 5, [new_commit(6, "OPTIMIZE"), change(7)], "past version 7"),
        (stream_at(6, 5), 5, [new_commit(6, metadata=OTHER)], "past version 6"),
        (stream_at(3, None), None, [change(3)], "past version 3"),
        (stream_at(4, 5), 4, [], "back from version 5 to version 4"),
        (stream_at(4, None), 5, [], "back from version 5 to version 4"),
        (stream_at(5, 5, "somebody"), 5, [], "somebody consumed it"),
    ],
    ids=[
        "new",
        "in_place",
        "skipped",
        "advanced",
        "altered",
        "new_and_advanced",
        "rewound",
        "adopted_and_rewound",
        "consumed",
    ],
)
def test_move_of_the_stream_by_others_is_found(
    stream: Stream, newest: int | None, commits: list[Commit], cause: str | None
) -> None:
    found = moved_by_others(archive(), stream, newest, commits)

    assert (found is None) if cause is None else (found is not None and cause in found)


def test_skipped_initial_rows_of_a_new_archive_are_found() -> None:
    whole, stream = archive(3, is_whole=True), stream_at(3, None)

    assert moved_by_others(whole, stream, None, []) == "its initial rows were skipped"
    waiting = replace(stream, shows_initial_rows=True)
    assert moved_by_others(whole, waiting, None, []) is None
    # A source without rows has no initial rows to keep.
    assert moved_by_others(whole, stream_at(3, 3), None, []) is None


def own(version: int) -> Commit:
    return replace(change(version), transactions={"cdc/c1/0/0": 1})


def found_in(*commits: Commit) -> ForeignChanges:
    found = ForeignChanges()
    for commit in reversed(commits):
        if not found.take(commit):
            break
    return found


def test_foreign_write_after_the_last_own_write_is_found() -> None:
    assert found_in(change(1), own(2)).version is None
    assert found_in(own(2), change(3), change(4)).version == 3
    assert found_in(own(2), change(3)).restorable == 2


def test_foreign_write_that_was_restored_changes_nothing() -> None:
    write = change(3)
    undo = new_commit(4, "RESTORE", removes=write.adds)

    assert found_in(own(2), write, undo).version is None


def test_rewrite_without_a_change_of_data_is_not_foreign() -> None:
    assert found_in(own(2), new_commit(3, "OPTIMIZE")).version is None
