"""The status of streams, as SHOW STREAMS reports it, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from streams import NOON, new_offset, new_stream, quiet_stream, register

from airflow_provider_cdc.engine.catalog.show_streams import shown
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.catalog.stream_status import StreamStatus, status_of
from airflow_provider_cdc.engine.core.model.sources import Base, Source
from airflow_provider_cdc.engine.core.model.stream import AppendSemantics, Stream, StreamMode
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

LATER = NOON + timedelta(days=1)
QUIET = {"txn": {"appId": "a", "version": 1}}
MISSING = Source("`missing`", "/missing", "a-table-id")
METADATA = {"id": "a-table-id", "configuration": {"delta.enableRowTracking": "true"}}


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """A stream at version 0, whose commit was cleaned up."""
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    commit(tmp_path, 1, added("a", 100), added("b", 20))
    commit(tmp_path, 2, removed("b", 20), added("c", 3))
    commit(tmp_path, 3, added("d", 7, data_change=False), removed("a", 100, data_change=False))
    source = Source("`lake`.`sales`.`orders`", str(tmp_path), "a-table-id")
    return new_stream("s", source=source, offset=new_offset(0, METADATA))


def at_version(stream: Stream, version: int) -> Stream:
    """The stream with its offset at that version."""
    ranged = SourceLog(Files()).range(stream, through=version)
    return stream.with_offsets(replace(ranged.end, row_id_high_water_mark=-1))


def commit(root: Path, version: int, *actions: dict[str, Any], hours: float | None = None) -> None:
    """Commit actions ``hours`` after noon, by default as many hours as the version number."""
    for action in actions:
        if "add" in action:
            action["add"]["defaultRowCommitVersion"] = version
    moment = NOON + timedelta(hours=version if hours is None else hours)
    timestamp = int(moment.timestamp() * 1000)
    info = {"timestamp": timestamp, "tags": {"delta.rowTracking.preserved": "true"}}
    actions = ({"commitInfo": info}, *actions)
    path = root / "_delta_log" / f"{version:020d}.json"
    path.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")


def added(path: str, size: int, *, data_change: bool = True) -> dict[str, Any]:
    return {"add": {"path": path, "size": size, "dataChange": data_change, "baseRowId": 0}}


def removed(path: str, size: int, *, data_change: bool = True) -> dict[str, Any]:
    return {"remove": {"path": path, "size": size, "dataChange": data_change}}


def status(stream: Stream, now: datetime = NOON) -> StreamStatus:
    return status_of(stream, SourceLog(Files()), now)


def table(root: Path, *commits: dict[str, Any]) -> Base:
    """A table with one action in each commit after version 0, and the offset at version 0."""
    (root / "_delta_log").mkdir(parents=True)
    for version, action in enumerate(commits, start=1):
        commit(root, version, action)
    source = Source(f"`{root.name}`", str(root), "a-table-id")
    return Base(source, new_offset(0, METADATA))


def test_status_counts_versions_commits_and_bytes_behind(stream: Stream) -> None:
    found = status(stream)
    assert (found.versions_behind, found.commits_behind) == (3, 2)
    assert found.bytes_behind == 3 + 7
    assert (found.may_have_data, found.stale) == (True, False)


def test_status_of_an_append_only_stream_counts_only_inserted_bytes(stream: Stream) -> None:
    found = status(replace(stream, mode=StreamMode.APPEND_ONLY))
    assert found.bytes_behind == 100 + 20 + 3


def test_rows_wait_as_far_as_statistics_show_it(tmp_path: Path) -> None:
    file = added("a", 10)
    file["add"]["stats"] = '{"numRecords": 5}'
    one = new_stream("s", bases=(table(tmp_path / "one", file),))
    assert (status(one).rows_waiting, status(one).has_data) == (5, True)
    assert (shown(status(one))["rows_waiting"], shown(status(one))["has_data"]) == (5, True)
    quiet = table(tmp_path / "quiet", QUIET)
    for found, expected in (
        (replace(one, shows_initial_rows=True), (None, None)),
        (replace(one, bases=(*one.bases, quiet)), (None, None)),
        (replace(one, bases=(quiet, quiet)), (0, False)),
        (replace(one, bases=(replace(quiet, source=MISSING),)), (None, None)),
    ):
        assert (status(found).rows_waiting, status(found).has_data) == expected


def test_status_of_a_stream_with_a_log_gap_has_a_reason_and_no_counts(
    stream: Stream,
) -> None:
    Path(stream.source.location, "_delta_log", f"{2:020d}.json").unlink()
    found = status(stream)
    assert (found.versions_behind, found.commits_behind, found.bytes_behind) == (None,) * 3
    assert (found.latest_version, found.may_have_data, found.stale) == (None, False, True)
    assert "version 2 is missing" in str(found.invalid_reason)


def test_status_of_an_insert_stream_ignores_commits_without_inserts(
    stream: Stream,
) -> None:
    late = at_version(stream, 3)
    commit(Path(stream.source.location), 4, removed("c", 3))
    commit(Path(stream.source.location), 5, added("e", 7))
    for mode, commits, hours in (
        (StreamMode.STANDARD, 2, 4),
        (StreamMode.APPEND_ONLY, 1, 5),
        (StreamMode.INSERT_ONLY, 1, 5),
    ):
        found = status(replace(late, mode=mode))
        assert found.commits_behind == commits
        assert found.behind_since == NOON + timedelta(hours=hours)


def test_staleness_prediction_counts_from_the_oldest_unconsumed_commit(stream: Stream) -> None:
    first = NOON + timedelta(hours=1)
    for created in (NOON - timedelta(days=300), NOON + timedelta(days=30)):
        found = status(replace(stream, created_at=created, last_consumed_at=created))
        assert found.stale_after == first + timedelta(days=14)
        assert found.kept_until == first + timedelta(days=7)


def test_change_after_a_long_quiet_period_does_not_make_a_stream_stale(stream: Stream) -> None:
    """The stream is consumed on day 0, and the next commit comes on day 20."""
    quiet = replace(at_version(stream, 3), last_consumed_at=NOON, created_at=NOON)
    moment = NOON + timedelta(days=20)
    assert status(quiet, moment).stale_after == moment + timedelta(days=14)

    commit(Path(stream.source.location), 4, added("e", 7), hours=20 * 24)
    found = status(quiet, moment + timedelta(minutes=1))
    assert (found.may_have_data, found.stale) == (True, False)
    assert found.stale_after == moment + timedelta(days=14)


def test_initial_rows_go_stale_when_the_log_at_the_offset_expires(stream: Stream) -> None:
    moment = NOON + timedelta(days=20)
    at_offset = replace(at_version(stream, 3), shows_initial_rows=True, created_at=moment)
    assert status(at_offset, moment).stale_after == moment + timedelta(days=14)

    commit(Path(stream.source.location), 4, added("e", 7), hours=20 * 24)
    assert status(at_offset, moment).stale_after == at_offset.offset.timestamp + timedelta(days=30)


def test_surviving_stream_staleness_counts_from_a_range_it_may_not_skip(
    stream: Stream,
) -> None:
    root = Path(stream.source.location)
    commit(root, 4, added("e", 7))
    commit(root, 5, removed("e", 7))
    moment = NOON + timedelta(days=10)
    appended = replace(at_version(stream, 3), mode=StreamMode.APPEND_ONLY)
    surviving = replace(appended, append_semantics=AppendSemantics.SURVIVING)
    found = status(surviving, moment)
    assert (found.may_have_data, found.behind_since) == (False, None)
    assert found.stale_after == NOON + timedelta(hours=4, days=14)


def test_unreadable_source_is_reported_and_blocks_no_other_status(
    stream: Stream, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    register(state, stream)
    broken = tmp_path / "broken"
    quiet_stream(state, broken, "broken")
    (broken / "_delta_log" / f"{1:020d}.json").write_text("no JSON", encoding="utf-8")

    found = {
        each.name: each for each in StreamCatalog(str(state), clock=lambda: NOON).describe_streams()
    }

    assert found["s"].commits_behind == 2
    assert "JSONDecodeError" in str(found["broken"].invalid_reason)
    assert found["broken"].commits_behind is None
    assert (found["broken"].may_have_data, found["broken"].stale) == (False, False)


def test_status_is_stale_once_its_prediction_has_passed(stream: Stream) -> None:
    later = status(stream).stale_after
    assert status_of(stream, SourceLog(Files()), later - timedelta(seconds=1)).stale is False
    assert status_of(stream, SourceLog(Files()), later).stale is True


def test_show_reports_the_position_of_a_stream_in_plain_values(stream: Stream) -> None:
    line = shown(status(replace(stream, comment="nightly", last_consumer="dag.task")))
    assert list(line)[:6] == ["created_on", "name", "catalog", "database", "table_on", "owner"]
    assert (line["catalog"], line["database"]) == ("lake", "sales")
    assert (line["mode"], line["type"], line["append_semantics"]) == ("standard", "DELTA", None)
    assert (line["offset"], line["commits_behind"], line["bytes_behind"]) == (0, 2, 10)
    assert (line["comment"], line["last_consumer"]) == ("nightly", "dag.task")
    plain = {str, int, float, bool, type(NOON), type(None)}
    assert {type(value) for value in line.values()} <= plain


def test_show_of_a_source_that_is_a_path_names_no_database(stream: Stream) -> None:
    source = replace(stream.source, name="delta.`/data/orders`")
    bases = (Base(source, stream.offset),)
    line = shown(status(replace(stream, bases=bases, mode=StreamMode.APPEND_ONLY)))
    assert (line["catalog"], line["database"]) == (None, None)
    assert line["append_semantics"] == "inserted"


def test_show_reports_lag_retention_and_access(stream: Stream) -> None:
    line = shown(status(stream))
    assert (line["behind_since"], line["kept_until"]) == (
        NOON + timedelta(hours=1),
        NOON + timedelta(hours=1) + timedelta(days=7),
    )
    assert (line["max_lag_seconds"], line["max_data_extension_seconds"]) == (None, 14 * 86_400)
    assert (line["column_style"], line["readers"], line["consumers"]) == ("snowflake", None, None)
    line = shown(
        status(replace(stream, readers=("a", "b"), consumers=(), max_lag=timedelta(minutes=1)))
    )
    assert (line["readers"], line["consumers"], line["max_lag_seconds"]) == ("a, b", "", 60)


def test_complete_through_ends_before_the_first_unconsumed_data_commit(stream: Stream) -> None:
    first = NOON + timedelta(hours=1)
    assert status(stream, LATER).complete_through == first - timedelta(milliseconds=1)


def test_complete_through_is_the_time_of_the_check_if_nothing_waits(tmp_path: Path) -> None:
    quiet = new_stream("s", bases=(table(tmp_path / "quiet", QUIET),))
    assert status(quiet, LATER).complete_through == LATER
    deleted = new_stream(
        "s", bases=(table(tmp_path / "deleted", removed("a", 1)),), mode=StreamMode.APPEND_ONLY
    )
    assert status(deleted, LATER).complete_through == LATER


def test_complete_through_never_exceeds_the_check_time_despite_clock_skew(
    stream: Stream,
) -> None:
    assert status(stream, NOON).complete_through == NOON


def test_complete_through_of_several_tables_is_the_earliest(tmp_path: Path) -> None:
    tables = (
        table(tmp_path / "quiet", QUIET),
        table(tmp_path / "late", QUIET, added("a", 1)),
        table(tmp_path / "early", added("a", 1)),
    )
    found = status(new_stream("s", bases=tables), LATER)
    each = [base.complete_through for base in found.base_tables]
    before_hours = [NOON + timedelta(hours=hours, milliseconds=-1) for hours in (2, 1)]
    assert each == [LATER, *before_hours]
    assert found.complete_through == before_hours[1]


def test_complete_through_is_unknown_for_missing_tables_or_initial_rows(
    stream: Stream, tmp_path: Path
) -> None:
    initial = replace(stream, shows_initial_rows=True)
    assert status(initial, LATER).complete_through is None
    missing = Base(Source("`missing`", str(tmp_path / "missing"), "a-table-id"), stream.offset)
    assert status(replace(stream, bases=(*stream.bases, missing)), LATER).complete_through is None
