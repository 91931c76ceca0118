"""Copies of a table (SCD type 1) and histories of it (type 2) in the order of its commits."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from history_lab import HistoryLab
from stream_lab import Crash, CrashAt, point_name

from airflow_provider_cdc.engine import InvalidRequest, Outcome, ProtocolPoint, TableExists

KILLED = (
    (ProtocolPoint.AFTER_BEGIN, None),
    (ProtocolPoint.AFTER_STATEMENT, 0),
    (ProtocolPoint.BEFORE_COMMIT, None),
)


@pytest.fixture
def source(lab: HistoryLab) -> HistoryLab:
    """A table of three rows, with the streams ``net`` and ``feed`` on it."""
    lab.make("t", "id INT, v STRING", "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    for mode in ("standard", "feed"):
        name = "net" if mode == "standard" else mode
        lab.engine.create_stream(name, on_table=lab.path("t"), mode=mode, show_initial_rows=True)
    return lab


def apply(
    lab: HistoryLab, target: str, stream: str = "net", *, engine: Any = None, **options: Any
) -> Outcome | None:
    found = engine or lab.engine
    consumer = f"tests.{target}"
    return found.apply_changes(lab.path(target), "id", stream=stream, consumer=consumer, **options)


def test_copy_equals_its_source_after_each_kind_of_change(source: HistoryLab) -> None:
    for target, stream in (("copy", "net"), ("fed", "feed")):
        assert apply(source, target, stream) is not None
        assert source.rows(target) == [(1, "a"), (2, "b"), (3, "c")]
        assert apply(source, target, stream) is None
    source.sql(
        "UPDATE {t} SET v = 'x' WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
        "INSERT INTO {t} VALUES (4, 'd')",
        "UPDATE {t} SET id = 5 WHERE id = 3",
        "DELETE FROM {t} WHERE id = 4",
        "INSERT INTO {t} VALUES (4, 'e')",
    )
    for target, stream in (("copy", "net"), ("fed", "feed")):
        apply(source, target, stream)
        assert source.rows(target) == source.rows("t") == [(1, "x"), (4, "e"), (5, "c")]


def test_key_that_moves_between_rows_in_one_commit_is_an_update(source: HistoryLab) -> None:
    apply(source, "copy")
    source.sql("UPDATE {t} SET id = 4 - id")
    apply(source, "copy")
    assert source.rows("copy") == [(1, "c"), (2, "b"), (3, "a")]


def test_two_rows_of_one_key_are_refused_and_nothing_is_written(source: HistoryLab) -> None:
    apply(source, "copy")
    source.sql("INSERT INTO {t} VALUES (7, 'x'), (7, 'y')")
    with pytest.raises(InvalidRequest, match="two events of one key") as refused:
        apply(source, "copy")
    assert "id = 7" in str(refused.value)
    assert "name the columns that identify a row" in refused.value.fix
    assert len(source.rows("copy")) == 3
    source.sql("DELETE FROM {t} WHERE v = 'y'")
    apply(source, "copy")
    assert source.rows("copy") == source.rows("t")


def test_copy_follows_added_and_widened_columns(source: HistoryLab) -> None:
    apply(source, "copy")
    source.sql(
        "ALTER TABLE {t} ADD COLUMNS (n INT)",
        "INSERT INTO {t} VALUES (4, 'd', 4)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
        f"INSERT INTO {{t}} VALUES (5, 'e', {2**40})",
    )
    apply(source, "copy")
    assert source.rows("copy") == source.rows("t")
    assert source.spark.table(source.name("copy")).schema["n"].dataType.simpleString() == "bigint"


def test_existing_table_becomes_a_copy_if_its_columns_fit(source: HistoryLab) -> None:
    source.make("copy", "id INT, v STRING", "INSERT INTO {t} VALUES (2, 'old'), (9, 'other')")
    source.make("other", "id INT, w STRING")
    apply(source, "copy")
    assert source.rows("copy") == [(1, "a"), (2, "b"), (3, "c"), (9, "other")]
    with pytest.raises(InvalidRequest, match="column w that its source does not have"):
        apply(source, "other", "feed")
    with pytest.raises(InvalidRequest, match="is not a history target"):
        apply(source, "other", "feed", scd_type=2)


def test_unchanged_rows_are_not_rewritten(source: HistoryLab) -> None:
    apply(source, "copy")
    source.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "UPDATE {t} SET v = 'a' WHERE id = 1")
    source.sql("INSERT INTO {copy} VALUES (4, 'd')", "INSERT INTO {t} VALUES (4, 'd')")
    outcome = apply(source, "copy")
    assert outcome is not None
    metrics = outcome.statements[-1].metrics
    assert metrics["numTargetRowsUpdated"] == metrics["numTargetRowsInserted"] == 0


def test_history_of_a_feed_has_every_commit_and_a_net_one_the_last(source: HistoryLab) -> None:
    apply(source, "net_history", scd_type=2)
    apply(source, "fed_history", "feed", scd_type=2)
    source.sql(
        "UPDATE {t} SET v = 'x' WHERE id = 1",
        "UPDATE {t} SET v = 'y' WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
    )
    at = [source.committed_at("t", version) for version in range(source.version("t") + 1)]
    created, *changed = at[-4:]
    apply(source, "net_history", scd_type=2)
    apply(source, "fed_history", "feed", scd_type=2)

    def history(target: str, key: int) -> list[tuple[Any, ...]]:
        rows = source.spark.table(source.name(target)).where(f"id = {key}").collect()
        found = [
            (row.v, *(row[each] and row[each].astimezone(UTC) for each in row.__fields__[2:]))
            for row in rows
        ]
        return sorted(found, key=lambda row: row[1])

    first, second, third = changed
    begin = history("fed_history", 3)[0][1]
    assert history("fed_history", 1) == [
        ("a", begin, first),
        ("x", first, second),
        ("y", second, None),
    ]
    assert history("fed_history", 2) == [("b", begin, third)]
    assert history("net_history", 1) == [("a", begin, third), ("y", third, None)]
    assert history("net_history", 2) == [("b", begin, third)]
    assert created <= begin < first


@pytest.mark.in_ci("before_commit", "after_statement 0")
@pytest.mark.parametrize("point", KILLED, ids=point_name)
def test_killed_apply_is_done_once_by_the_next(
    source: HistoryLab, point: tuple[ProtocolPoint, int | None]
) -> None:
    apply(source, "history", "feed", scd_type=2)
    source.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    with pytest.raises(Crash):
        apply(source, "history", "feed", scd_type=2, engine=source.new_engine(CrashAt(*point)))
    apply(source, "history", "feed", scd_type=2)
    found = source.spark.table(source.name("history")).groupBy("id", "v").count().collect()
    assert sorted(tuple(row) for row in found) == [
        (1, "a", 1),
        (1, "x", 1),
        (2, "b", 1),
        (3, "c", 1),
    ]
    assert not source.engine.stream_has_data("feed")


def test_query_of_a_stream_shapes_its_events(source: HistoryLab) -> None:
    query = "SELECT id, upper(v) AS v, `METADATA$ACTION` FROM net"
    with pytest.raises(InvalidRequest, match="query"):
        source.engine.apply_changes(
            source.path("copy"), "id", query="SELECT 1 AS id", consumer="tests"
        )
    apply(source, "copy", query=query)
    source.sql("DELETE FROM {t} WHERE id = 1")
    apply(source, "copy", query=query)
    assert source.rows("copy") == [(2, "B"), (3, "C")]


def test_options_of_a_later_call_must_be_those_of_the_target(source: HistoryLab) -> None:
    apply(source, "history", "feed", scd_type=2)
    source.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    with pytest.raises(InvalidRequest, match="has another scd_type"):
        apply(source, "history", "feed")
    with pytest.raises(InvalidRequest, match="has another start_column"):
        apply(source, "history", "feed", scd_type=2, start_column="valid_from")
    apply(source, "history", "feed", scd_type=2, on_null="quarantine")


@pytest.mark.thorough
def test_deletes_without_a_sequence_of_their_own_are_refused(source: HistoryLab) -> None:
    with pytest.raises(InvalidRequest, match="cannot order the deletes"):
        apply(source, "history", scd_type=2, sequence_by="v")
    query = (
        "SELECT id, v, IF(`METADATA$ACTION` = 'DELETE', 'z', v) AS at, * EXCEPT (id, v) FROM net"
    )
    options = {"scd_type": 2, "sequence_by": "at", "except_column_list": "at"}
    apply(source, "history", query=query, **options)
    source.sql("DELETE FROM {t} WHERE id = 1")
    apply(source, "history", query=query, **options)
    found = {
        row["id"]: row["__END_AT"] for row in source.spark.table(source.name("history")).collect()
    }
    assert found == {1: "z", 2: None, 3: None}


def test_target_is_created_even_if_its_stream_has_no_data(source: HistoryLab) -> None:
    source.engine.create_stream("quiet", on_table=source.path("t"))
    # A killed CREATE TABLE leaves this folder without a commit.
    (Path(source.path("copy")) / "_delta_log").mkdir(parents=True)
    assert apply(source, "copy", "quiet") is None
    assert source.rows("copy") == []


@pytest.mark.thorough
def test_view_shows_the_rows_that_are_current(source: HistoryLab) -> None:
    spark, view = source.spark, "history_lab_now"
    options = {"scd_type": 2, "current_view": view, "deleted": "row"}
    spark.sql(f"CREATE VIEW {view} AS SELECT 1 AS id")
    try:
        with pytest.raises(TableExists, match="choose another name"):
            apply(source, "history", "feed", **options)
        spark.sql(f"DROP VIEW {view}")
        apply(source, "history", "feed", **options)
        source.sql("DELETE FROM {t} WHERE id = 1", "UPDATE {t} SET v = 'z' WHERE id = 2")
        source.sql("ALTER TABLE {t} ADD COLUMN u INT", "INSERT INTO {t} VALUES (4, 'd', 4)")
        apply(source, "history", "feed", **options)
        found = spark.table(view)
        assert found.columns == ["id", "v", "u"]
        assert sorted(map(tuple, found.collect())) == [
            (2, "z", None),
            (3, "c", None),
            (4, "d", 4),
        ]
    finally:
        spark.sql(f"DROP VIEW IF EXISTS {view}")
