"""The rules of Snowflake's document on table streams, a test for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_lab import Change, StreamLab, row_ids

from airflow_provider_cdc.engine import (
    OffsetOf,
    Progress,
    ProtocolPoint,
    StreamConflict,
    StreamMode,
    StreamStale,
)

NEW = ("INSERT", False)
DELETED = ("DELETE", False)


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    return StreamLab(spark, tmp_path)


@pytest.fixture
def source(lab: StreamLab) -> StreamLab:
    """A table ``t`` with three rows, the stream ``s`` at its newest version, and an empty
    ``target``.
    """
    rows = "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')"
    lab.make("t", "id INT, v STRING", rows, properties="'delta.enableRowTracking' = 'true'")
    lab.make("target", "id INT, v STRING, action STRING, is_update BOOLEAN")
    lab.engine.create_stream("s", on_table=lab.path("t"))
    return lab


FILLED = "USING delta AS SELECT 1 AS id, 'a' AS v"
CONSUME = "INSERT INTO {target} SELECT id, v, METADATA$ACTION, METADATA$ISUPDATE FROM s"


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE SCHEMA snowflake_streams")
    yield "snowflake_streams"
    spark.sql("DROP SCHEMA snowflake_streams CASCADE")


# Offset storage


def test_new_stream_is_at_the_newest_version_and_holds_no_rows(
    source: StreamLab,
) -> None:
    assert source.engine.describe_stream("s").offset_version == source.version("t")
    assert source.changes("s") == []


def test_stream_stores_its_offset_and_no_rows_of_the_table(source: StreamLab) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'needle in the table')")
    assert source.seen("s") == [(4, "needle in the table", *NEW)]
    stored = [file for file in (source.root / "state").rglob("*") if file.is_file()]
    assert stored
    # The crafted log of a read holds the file's statistics, and is removed with the scratch folder.
    kept = [file for file in stored if "scratch" not in file.parts]
    assert not any(b"needle in the table" in file.read_bytes() for file in kept)


@pytest.mark.thorough
def test_first_stream_switches_tracking_on_without_a_visible_column(
    lab: StreamLab,
) -> None:
    lab.make("t", "id INT, v STRING")
    lab.sql("INSERT INTO {t} VALUES (1, 'a')")
    lab.engine.create_stream("s", on_table=lab.path("t"))
    assert lab.rows("t") == [(1, "a")]
    assert lab.spark.table(lab.name("t")).columns == ["id", "v"]
    lab.sql("DELETE FROM {t} WHERE id = 1")
    assert lab.seen("s") == [(1, "a", *DELETED)]


@pytest.mark.thorough
def test_streams_of_one_table_have_independent_offsets(source: StreamLab) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    source.engine.create_stream("later", on_table=source.path("t"))
    source.engine.create_stream("same", on_table=source.path("t"), mode=StreamMode.APPEND_ONLY)
    source.sql("INSERT INTO {t} VALUES (5, 'e')")
    source.engine.drop_stream("same")
    assert source.seen("later") == [(5, "e", *NEW)]
    assert source.seen("s") == [(4, "d", *NEW), (5, "e", *NEW)]
    source.engine.create_stream("same", on_table=source.path("t"))
    assert source.changes("same") == []


# Table versioning


@pytest.mark.thorough
def test_stream_returns_every_transaction_after_its_offset(
    lab: StreamLab,
) -> None:
    lab.make("t", "version INT", properties="'delta.enableRowTracking' = 'true'")
    for version in (1, 2, 3):
        lab.sql(f"INSERT INTO {{t}} VALUES ({version})")
    lab.engine.create_stream("s1", on_table=lab.path("t"))
    for version in range(4, 11):
        lab.sql(f"INSERT INTO {{t}} VALUES ({version})")
    assert sorted(change.values[0] for change in lab.changes("s1")) == list(range(4, 11))
    status = lab.engine.describe_stream("s1")
    assert (status.offset_version, status.latest_version) == (3, 10)


@pytest.mark.thorough
def test_change_set_of_mixed_changes_is_minimal(source: StreamLab) -> None:
    source.sql(
        "INSERT INTO {t} VALUES (4, 'd'), (5, 'e'), (6, 'unchanged'), (7, 'g')",
    )
    source.engine.advance_stream("s")
    source.sql(
        "INSERT INTO {t} VALUES (10, 'inserted'), (11, 'inserted then updated'), (12, 'deleted')",
        "UPDATE {t} SET v = 'new' WHERE id IN (1, 11)",
        "DELETE FROM {t} WHERE id IN (2, 12)",
        "UPDATE {t} SET v = 'in between' WHERE id IN (3, 4)",
        "DELETE FROM {t} WHERE id = 3",
        "UPDATE {t} SET v = 'd' WHERE id = 4",
        "UPDATE {t} SET v = v WHERE id = 5",
        "UPDATE {t} SET id = 70 WHERE id = 7",
    )
    assert source.seen("s") == [
        (1, "a", "DELETE", True),
        (1, "new", "INSERT", True),
        (10, "inserted", *NEW),
        (11, "new", *NEW),
        (2, "b", *DELETED),
        (3, "c", *DELETED),
        (7, "g", "DELETE", True),
        (70, "g", "INSERT", True),
    ]


def test_truncate_is_a_delete_of_every_row(source: StreamLab) -> None:
    source.sql("TRUNCATE TABLE {t}")
    assert source.seen("s") == [(1, "a", *DELETED), (2, "b", *DELETED), (3, "c", *DELETED)]


# Moving the offset


@pytest.mark.thorough
def test_repeated_reads_of_a_stream_never_move_its_offset(source: StreamLab) -> None:
    source.sql("UPDATE {t} SET v = 'z' WHERE id = 1")
    offset = source.engine.describe_stream("s").offset_version
    first = source.changes("s")
    assert first
    assert source.changes("s") == first
    assert source.engine.stream_has_data("s")
    assert source.engine.describe_stream("s").offset_version == offset


@pytest.mark.thorough
def test_dml_that_reads_a_stream_consumes_all_of_it_even_if_it_filters(
    source: StreamLab,
) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd'), (5, 'e')")
    source.consume(CONSUME + " WHERE id = 4")
    assert source.rows("target") == [(4, "d", "INSERT", False)]
    assert source.changes("s") == []


@pytest.mark.thorough
def test_create_table_as_select_consumes_a_stream(source: StreamLab) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    source.consume("CREATE TABLE {filled} USING delta AS SELECT id, v FROM s")
    assert source.rows("filled") == [(4, "d")]
    assert source.changes("s") == []


@pytest.mark.thorough
def test_insert_with_a_false_filter_advances_the_offset_and_writes_nothing(
    source: StreamLab,
) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    source.consume(CONSUME + " WHERE 0 = 1")
    assert source.rows("target") == []
    assert source.changes("s") == []
    assert source.engine.describe_stream("s").offset_version == source.version("t")


@pytest.mark.thorough
def test_advance_moves_the_offset_to_now_without_dml(source: StreamLab) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    source.engine.advance_stream("s")
    assert not source.engine.stream_has_data("s")
    source.sql("DELETE FROM {t} WHERE id = 4")
    assert source.seen("s") == [(4, "d", *DELETED)]


@pytest.mark.thorough
def test_consuming_an_empty_stream_skips_versions_without_changes(
    source: StreamLab,
) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    source.engine.advance_stream("s")
    source.sql("OPTIMIZE {t}")
    outcome = source.consume(CONSUME)
    assert outcome.streams[0].rows == {"inserted": 0, "updated": 0, "deleted": 0}
    assert source.engine.describe_stream("s").offset_version == source.version("t")


@pytest.mark.thorough
def test_consuming_moves_stale_after_forward(source: StreamLab) -> None:
    before = source.engine.describe_stream("s")
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    source.consume(CONSUME)
    after = source.engine.describe_stream("s")
    assert after.stale_after > before.stale_after
    assert not after.stale


# Repeatable read isolation


@pytest.mark.thorough
def test_repeatable_read_gives_each_statement_the_same_records(source: StreamLab) -> None:
    # Transaction 1 changes the table itself, and another writer changes it meanwhile.
    source.sql("INSERT INTO {t} VALUES (4, 'before the transaction')")

    def meanwhile(progress: Progress) -> None:
        if progress.point is ProtocolPoint.AFTER_STATEMENT and progress.statement_index == 0:
            source.sql("INSERT INTO {t} VALUES (5, 'by somebody else')")

    first = source.consume(
        CONSUME,
        "UPDATE {t} SET v = 'by the transaction itself' WHERE id = 1",
        CONSUME,
        engine=source.new_engine(meanwhile),
    )
    # Every query of the transaction saw the same records.
    row = (4, "before the transaction", "INSERT", False)
    assert source.rows("target") == [row, row]
    # The offset is at the transaction's start: a second transaction sees the rest.
    assert first.streams[0].through_version == source.version("t") - 2
    assert source.seen("s") == [
        (1, "a", "DELETE", True),
        (1, "by the transaction itself", "INSERT", True),
        (5, "by somebody else", *NEW),
    ]


@pytest.mark.thorough
def test_rows_read_before_a_commit_do_not_include_it(source: StreamLab) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    early = source.engine.read_stream("s")
    source.sql("INSERT INTO {t} VALUES (5, 'e')", "DELETE FROM {t} WHERE id = 4")
    assert [row["id"] for row in early.collect()] == [4]
    assert source.seen("s") == [(5, "e", *NEW)]


@pytest.mark.thorough
def test_several_statements_of_one_transaction_see_the_same_records(source: StreamLab) -> None:
    source.make("counted", "rows LONG")
    source.sql("UPDATE {t} SET v = 'z' WHERE id = 1")
    source.consume(CONSUME, "INSERT INTO {counted} SELECT count(*) FROM s")
    assert source.rows("counted") == [(2,)]
    assert len(source.rows("target")) == 2
    assert source.changes("s") == []


@pytest.mark.thorough
def test_transaction_that_reads_a_stream_locks_it_until_it_commits(source: StreamLab) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    refused = []

    def while_open(progress: Progress) -> None:
        if progress.point is ProtocolPoint.BEFORE_COMMIT:
            for move in (source.engine.advance_stream, source.engine.drop_stream):
                with pytest.raises(StreamConflict, match="while it is applying"):
                    move("s")
                refused.append(move)

    source.consume(CONSUME, engine=source.new_engine(while_open))
    assert len(refused) == 2
    assert source.changes("s") == []


# Stream columns


def test_stream_columns_are_the_source_columns_in_order_plus_three(
    source: StreamLab,
) -> None:
    found = source.engine.read_stream("s")
    assert found.dtypes == [
        ("id", "int"),
        ("v", "string"),
        ("METADATA$ACTION", "string"),
        ("METADATA$ISUPDATE", "boolean"),
        ("METADATA$ROW_ID", "string"),
    ]
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    assert source.engine.read_stream("s").dtypes == found.dtypes


@pytest.mark.thorough
def test_update_is_a_pair_with_isupdate_true_and_one_row_id(source: StreamLab) -> None:
    source.sql("UPDATE {t} SET v = 'z' WHERE id = 2")
    old, new = source.changes("s")
    assert old == Change((2, "b"), "DELETE", True, old.row_id)
    assert new == Change((2, "z"), "INSERT", True, old.row_id)


def test_row_inserted_and_updated_after_the_offset_is_one_plain_insert(
    source: StreamLab,
) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')", "UPDATE {t} SET v = 'z' WHERE id = 4")
    assert source.seen("s") == [(4, "z", "INSERT", False)]


@pytest.mark.thorough
def test_row_id_is_unique_and_never_changes_through_the_life_of_a_row(source: StreamLab) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd'), (4, 'd')")
    born = source.changes("s")
    assert len({change.row_id for change in born}) == 2
    source.sql("DELETE FROM {t} WHERE id = 4", "INSERT INTO {t} VALUES (4, 'd'), (5, 'e')")
    again = row_ids(source.changes("s"))
    assert again[4] not in {change.row_id for change in born}
    source.engine.advance_stream("s")
    for statement in (
        "UPDATE {t} SET v = 'z' WHERE id = 5",
        "OPTIMIZE {t}",
        "MERGE INTO {t} USING (SELECT 5 AS k) ON id = k WHEN MATCHED THEN UPDATE SET v = 'y'",
        "UPDATE {t} SET id = 50 WHERE id = 5",
        "DELETE FROM {t} WHERE id = 50",
    ):
        source.sql(statement)
        assert {change.row_id for change in source.changes("s")} <= {again[5]}
    assert source.changes("s") == [Change((5, "e"), *DELETED, again[5])]


def test_row_id_of_a_row_is_the_same_in_two_streams_of_one_table(source: StreamLab) -> None:
    source.engine.create_stream("s2", on_table=source.path("t"), mode=StreamMode.APPEND_ONLY)
    source.sql("INSERT INTO {t} VALUES (4, 'd'), (5, 'e')")
    assert source.changes("s") == source.changes("s2")


# Types of streams


def test_append_only_stream_returns_ten_inserts_after_five_are_deleted(source: StreamLab) -> None:
    source.engine.create_stream("added", on_table=source.path("t"), mode=StreamMode.APPEND_ONLY)
    ten = ", ".join(f"({number}, 'n')" for number in range(10, 20))
    source.sql(
        f"INSERT INTO {{t}} VALUES {ten}",
        "DELETE FROM {t} WHERE id >= 15",
        "UPDATE {t} SET v = 'updated' WHERE id = 10",
    )
    assert source.seen("added") == [(number, "n", *NEW) for number in range(10, 20)]
    assert source.seen("s") == [
        (10, "updated", *NEW),
        *((number, "n", *NEW) for number in range(11, 15)),
    ]


@pytest.mark.thorough
def test_append_only_stream_captures_no_update_no_delete_and_no_truncate(
    source: StreamLab,
) -> None:
    source.engine.create_stream("added", on_table=source.path("t"), mode=StreamMode.APPEND_ONLY)
    source.sql("UPDATE {t} SET v = 'z' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    assert source.changes("added") == []
    source.sql("TRUNCATE TABLE {t}")
    assert source.changes("added") == []
    assert not source.engine.stream_has_data("added")


@pytest.mark.thorough
def test_truncate_after_consuming_adds_nothing_to_an_append_only_stream(
    source: StreamLab,
) -> None:
    source.engine.create_stream("added", on_table=source.path("t"), mode=StreamMode.APPEND_ONLY)
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    source.consume("INSERT INTO {target} SELECT id, v, NULL, NULL FROM added")
    source.sql("TRUNCATE TABLE {t}")
    assert source.changes("added") == []
    outcome = source.consume("INSERT INTO {target} SELECT id, v, NULL, NULL FROM added")
    assert outcome.streams[0].strategy == "nothing"


# Data flow


@pytest.mark.thorough
def test_consumption_returns_what_changed_since_the_previous_one(
    source: StreamLab,
) -> None:
    steps = [
        ("INSERT INTO {t} VALUES (4, 'd')", [(4, "d", *NEW)]),
        (
            "UPDATE {t} SET v = 'dd' WHERE id = 4",
            [(4, "d", "DELETE", True), (4, "dd", "INSERT", True)],
        ),
        ("DELETE FROM {t} WHERE id = 4", [(4, "dd", *DELETED)]),
        ("OPTIMIZE {t}", []),
    ]
    for statement, expected in steps:
        source.sql(statement)
        assert source.seen("s") == expected
        source.sql("DELETE FROM {target}")
        source.consume(CONSUME)
        assert source.rows("target") == sorted(expected, key=repr)
        assert source.changes("s") == []


# Staleness


@pytest.mark.in_ci("(id INT, v STRING) USING delta")
@pytest.mark.parametrize("definition", ["(id INT, v STRING) USING delta", FILLED])
def test_source_recreated_makes_its_streams_stale(
    source: StreamLab, schema: str, definition: str
) -> None:
    table = f"{schema}.replaced"
    source.sql(f"CREATE TABLE {table} (id INT, v STRING) USING delta")
    source.engine.create_stream("on_name", on_table=table)
    source.sql(f"CREATE OR REPLACE TABLE {table} {definition}")
    with pytest.raises(StreamStale, match="was replaced"):
        source.engine.read_stream("on_name")
    with pytest.raises(StreamStale, match="recover each target that must equal"):
        source.consume(CONSUME.replace("FROM s", "FROM on_name"))
    status = source.engine.describe_stream("on_name")
    assert status.stale
    assert "was replaced" in (status.invalid_reason or "")


def test_source_recreated_under_its_name_is_not_linked_to_the_stream(
    source: StreamLab, schema: str
) -> None:
    table = f"{schema}.again"
    source.sql(f"CREATE TABLE {table} (id INT) USING delta")
    source.engine.create_stream("on_name", on_table=table)
    source.sql(
        f"DROP TABLE {table}",
        f"CREATE TABLE {table} (id INT) USING delta",
        f"INSERT INTO {table} VALUES (1)",
    )
    with pytest.raises(StreamStale, match="stream on_name: is stale"):
        source.engine.read_stream("on_name")


def test_source_renamed_keeps_its_stream(source: StreamLab, schema: str) -> None:
    source.sql(
        f"CREATE TABLE {schema}.old_name (id INT) USING delta LOCATION '{source.path('named')}'"
    )
    source.engine.create_stream("on_name", on_table=f"{schema}.old_name")
    source.sql(
        f"ALTER TABLE {schema}.old_name RENAME TO {schema}.new_name",
        f"INSERT INTO {schema}.new_name VALUES (1)",
    )
    assert source.seen("on_name") == [(1, *NEW)]


def test_managed_source_that_is_renamed_leaves_its_stream_stale(
    source: StreamLab, schema: str
) -> None:
    source.sql(f"CREATE TABLE {schema}.managed (id INT) USING delta")
    source.engine.create_stream("on_name", on_table=f"{schema}.managed")
    source.sql(f"ALTER TABLE {schema}.managed RENAME TO {schema}.moved")
    with pytest.raises(StreamStale, match="is missing"):
        source.engine.read_stream("on_name")


@pytest.mark.thorough
def test_stream_recreated_on_a_renamed_managed_source_loses_no_change(
    source: StreamLab, schema: str
) -> None:
    source.sql(
        f"CREATE TABLE {schema}.managed (id INT) USING delta",
        f"INSERT INTO {schema}.managed VALUES (1), (2)",
    )
    source.engine.create_stream("on_name", on_table=f"{schema}.managed")
    source.sql(
        f"DELETE FROM {schema}.managed WHERE id = 1",
        f"INSERT INTO {schema}.managed VALUES (3)",
    )
    expected = source.changes("on_name")
    source.sql(
        f"ALTER TABLE {schema}.managed RENAME TO {schema}.moved",
    )
    with pytest.raises(StreamStale, match=r"renamed.*at=OffsetOf\(.*or_replace"):
        source.engine.read_stream("on_name")
    source.engine.create_stream(
        "on_name", on_table=f"{schema}.moved", at=OffsetOf("on_name"), or_replace=True
    )
    assert source.changes("on_name") == expected
    source.sql(f"INSERT INTO {schema}.moved VALUES (4)")
    assert source.seen("on_name") == [(1, *DELETED), (3, *NEW), (4, *NEW)]


def test_external_source_that_is_dropped_keeps_its_files_and_its_stream(
    source: StreamLab, schema: str
) -> None:
    location = source.path("outside")
    source.sql(f"CREATE TABLE {schema}.outside (id INT) USING delta LOCATION '{location}'")
    source.engine.create_stream("on_name", on_table=f"{schema}.outside")
    source.sql(f"INSERT INTO {schema}.outside VALUES (1)", f"DROP TABLE {schema}.outside")
    assert source.seen("on_name") == [(1, *NEW)]


# Several consumers


@pytest.mark.thorough
def test_consumers_with_separate_streams_get_the_same_changes(source: StreamLab) -> None:
    source.engine.create_stream("s2", on_table=source.path("t"))
    source.sql("INSERT INTO {t} VALUES (4, 'd')", "DELETE FROM {t} WHERE id = 1")
    expected = source.changes("s")
    source.consume(CONSUME, consumer="first")
    assert source.changes("s") == []
    assert source.changes("s2") == expected
    source.consume(CONSUME.replace("FROM s", "FROM s2"), consumer="second")
    assert source.rows("target") == sorted(2 * [(1, "a", *DELETED), (4, "d", *NEW)], key=repr)


@pytest.mark.thorough
def test_consumers_of_one_stream_get_different_changes(source: StreamLab) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    source.consume(CONSUME, consumer="first")
    source.sql("INSERT INTO {t} VALUES (5, 'e')")
    source.consume(CONSUME, consumer="second")
    assert source.rows("target") == [(4, "d", *NEW), (5, "e", *NEW)]


# SYSTEM$STREAM_HAS_DATA


def test_has_data_reports_whether_a_change_is_not_consumed(source: StreamLab) -> None:
    has_data = source.engine.stream_has_data
    assert not has_data("s")
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    assert has_data("s")
    assert has_data("s", exact=False)
    source.sql("DELETE FROM {t} WHERE id = 4")
    # The two writes cancel each other out.
    assert not has_data("s")
    assert source.changes("s") == []


def test_has_data_after_only_a_file_rearrangement_is_false(source: StreamLab) -> None:
    source.sql("INSERT INTO {t} VALUES (4, 'd')")
    source.engine.advance_stream("s")
    source.sql("OPTIMIZE {t}")
    assert source.engine.describe_stream("s").versions_behind == 1
    assert not source.engine.stream_has_data("s", exact=False)
