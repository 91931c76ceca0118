"""Queries and full snapshots as the sources of history targets, and reads of the targets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from history_lab import HistoryLab
from history_model import Interval

from airflow_provider_cdc.engine import (
    InvalidRange,
    InvalidRequest,
    InvalidStatement,
    Outcome,
    Timestamp,
    Version,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def apply(lab: HistoryLab, target: str, **options: Any) -> Outcome | None:
    return lab.engine.apply_changes(lab.path(target), "k", consumer="tests", **options)


def snapshot(lab: HistoryLab, hours: int, rows: str, **options: Any) -> Outcome | None:
    """Apply a snapshot of ``rows``, some hours after noon."""
    query = f"SELECT * FROM VALUES {rows} AS rows(k, region, v)"
    given = {"scd_type": 2, **options}
    return apply(lab, "t", snapshot=query, snapshot_at=NOON + timedelta(hours=hours), **given)


def spans(lab: HistoryLab) -> dict[str, list[tuple[Any, Any, str]]]:
    """The rows of each key: when it starts and ends, in hours after noon, and its value."""

    def hours(moment: datetime | None) -> int | None:
        return None if moment is None else (moment.astimezone(UTC) - NOON) // timedelta(hours=1)

    return {
        key: [(hours(row.start), hours(row.end), row.values["v"]) for row in rows]
        for key, rows in lab.intervals("t").items()
    }


def test_snapshots_end_the_rows_of_absent_keys(lab: HistoryLab) -> None:
    snapshot(lab, 1, "('k', 'eu', 'a'), ('l', 'us', 'x'), ('m', 'us', 'y')")
    snapshot(lab, 2, "('k', 'eu', 'b'), ('m', 'us', 'y')")
    snapshot(lab, 3, "('k', 'eu', 'b'), ('l', 'us', 'x'), ('m', 'us', 'y')")
    outcome = snapshot(lab, 4, "('k', 'eu', 'b'), ('l', 'us', 'x'), ('m', 'us', 'y')")

    assert outcome is not None
    assert outcome.statements[-1].metrics["rowsWritten"] == 0
    assert spans(lab) == {
        "k": [(1, 2, "a"), (2, None, "b")],
        "l": [(1, 2, "x"), (3, None, "x")],
        "m": [(1, None, "y")],
    }


@pytest.mark.thorough
def test_absent_key_outside_the_scope_of_a_snapshot_stays(lab: HistoryLab) -> None:
    scope: dict[str, Any] = {"absent_scope": "region"}
    snapshot(lab, 1, "('k', 'eu', 'a'), ('l', 'us', 'x'), ('m', 'eu', 'y')", **scope)
    snapshot(lab, 2, "('k', 'eu', 'b')", **scope)
    snapshot(lab, 3, "('k', 'eu', 'b'), ('n', 'us', 'z')", **scope | {"absent": "ignore"})

    assert spans(lab) == {
        "k": [(1, 2, "a"), (2, None, "b")],
        "l": [(1, None, "x")],
        "m": [(1, 2, "y")],
        "n": [(3, None, "z")],
    }


def test_snapshot_older_than_the_last_one_is_refused(lab: HistoryLab) -> None:
    snapshot(lab, 2, "('k', 'eu', 'a')")
    snapshot(lab, 3, "('k', 'eu', 'a')")
    with pytest.raises(InvalidRequest, match="older snapshot"):
        snapshot(lab, 1, "('k', 'eu', 'b')")
    with pytest.raises(InvalidRequest, match="older snapshot"):
        snapshot(lab, 2, "('k', 'eu', 'b')")
    snapshot(lab, 3, "('k', 'eu', 'a')")
    assert spans(lab) == {"k": [(2, None, "a")]}


def test_snapshot_with_two_rows_of_a_key_is_refused(lab: HistoryLab) -> None:
    snapshot(lab, 1, "('k', 'eu', 'a')")
    with pytest.raises(InvalidRequest, match="two events of one key"):
        snapshot(lab, 2, "('k', 'eu', 'b'), ('k', 'eu', 'c')")
    with pytest.raises(InvalidRequest, match="key column k is NULL"):
        snapshot(lab, 2, "(CAST(NULL AS STRING), 'eu', 'b')")
    assert spans(lab) == {"k": [(1, None, "a")]}


@pytest.mark.thorough
def test_snapshot_of_a_table_has_the_time_of_its_commit(lab: HistoryLab) -> None:
    lab.make("source", "k STRING, v STRING", "INSERT INTO {t} VALUES ('k', 'a'), ('l', 'x')")
    apply(lab, "copy", snapshot=lab.path("source"))
    apply(lab, "t", snapshot=lab.path("source"), scd_type=2)
    lab.sql("UPDATE {source} SET v = 'b' WHERE k = 'k'", "DELETE FROM {source} WHERE k = 'l'")
    apply(lab, "copy", snapshot=lab.path("source"))
    apply(lab, "t", snapshot=lab.path("source"), scd_type=2)

    assert lab.rows("copy") == lab.rows("source")
    first, last = lab.committed_at("source", 1), lab.committed_at("source", 3)
    found = [
        (row.start.astimezone(UTC), row.end and row.end.astimezone(UTC), row.values["v"])
        for row in lab.intervals("t")["k"]
    ]
    assert found == [(first, last, "a"), (last, None, "b")]


def test_query_of_tables_is_applied_once(lab: HistoryLab) -> None:
    lab.make_events()
    options: dict[str, Any] = {
        "query": f"SELECT k, seq, op, v FROM {lab.name('events')}",
        "sequence_by": "seq",
        "apply_as_deletes": "op = 'D'",
        "except_column_list": ["op", "seq"],
        "scd_type": 2,
    }
    lab.sql("INSERT INTO {events} VALUES ('k', 1, 'U', 'a', NULL), ('k', 3, 'U', 'c', NULL)")
    apply(lab, "t", **options)
    lab.sql("INSERT INTO {events} VALUES ('k', 2, 'D', NULL, NULL)")
    for _ in range(2):
        apply(lab, "t", **options)

    expected = [Interval(1, 2, {"v": "a"}), Interval(3, None, {"v": "c"})]
    assert lab.intervals("t") == {"k": expected}
    with pytest.raises(InvalidStatement, match="refused by Spark"):
        apply(lab, "t", **options | {"query": "SELECT k, seq, op, v FROM nowhere"})


def test_reads_show_a_moment_as_it_was_known_at_a_version(lab: HistoryLab) -> None:
    snapshot(lab, 1, "('k', 'eu', 'a'), ('l', 'us', 'x')")
    known = lab.version("t")
    snapshot(lab, 2, "('k', 'eu', 'b')")

    def values(**given: Any) -> list[tuple[Any, ...]]:
        rows = lab.engine.read_scd(lab.path("t"), **given).select("k", "v").collect()
        return sorted(map(tuple, rows))

    def at(hours: int) -> datetime:
        return NOON + timedelta(hours=hours)

    assert values() == [("k", "b")]
    assert values(at=at(0)) == []
    assert values(at=at(1)) == [("k", "a"), ("l", "x")]
    assert values(at=at(2)) == [("k", "b")]
    assert values(at=at(2), known_at=Version(known)) == [("k", "a"), ("l", "x")]
    assert values(known_at=Timestamp(lab.committed_at("t", known))) == [("k", "a"), ("l", "x")]
    with pytest.raises(InvalidRange, match="did not exist then"):
        values(known_at=Version(99))
    for wrong in ("nonsense", datetime(2026, 1, 1), [at(1), at(2)]):
        with pytest.raises(InvalidRequest, match="cannot be read at this moment"):
            values(at=wrong)
