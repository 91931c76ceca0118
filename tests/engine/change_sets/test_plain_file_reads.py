"""Change sets of simple files, which are read as plain Parquet without a crafted log."""

from __future__ import annotations

import shutil
from pathlib import Path
from weakref import WeakSet

import pytest
from oracle import Change, MakeTable, SourceTable, update
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine.core.change_sets import plain_files, sink_log
from airflow_provider_cdc.engine.core.change_sets.read_plan import Strategy
from airflow_provider_cdc.engine.core.errors import StreamUnusable
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.spark.change_sets import file_lists
from airflow_provider_cdc.engine.spark.session.session_settings import settings
from airflow_provider_cdc.engine.storage.files.scratch import Scratch

PLAIN = "plain"
# Spark lists this many paths without a job.
MANY = 32
FEED = "'delta.enableChangeDataFeed' = 'true'"

either_vectors = pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])


def has_crafted_log(table: SourceTable, stream: Stream) -> bool:
    """Whether a change set is read through a crafted log: a file list needs no scratch folder."""
    roots = table.read(stream).scratch
    assert all((Path(root) / "_delta_log").exists() for root in roots)
    return roots != ()


def check(table: SourceTable, stream: Stream) -> list[Change]:
    """The oracle's change set, read without a crafted log."""
    assert not has_crafted_log(table, stream)
    return table.check(stream)


@pytest.mark.thorough
@either_vectors
def test_plain_files_of_many_commits_give_the_minimal_change_set(
    make_table: MakeTable, vectors: bool
) -> None:
    rows = [f"{i}, 'v{i}'" for i in range(8)]
    table = make_table("id INT, v STRING", *rows, vectors=vectors, folder=PLAIN)
    stream, inserted, surviving = table.stream(), table.inserted(), table.surviving()
    table.sql(
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (10, 'a'), (11, 'b'), (12, 'c')",
        "UPDATE {t} SET v = 'x' WHERE id IN (1, 10)",
        "DELETE FROM {t} WHERE id IN (2, 11)",
    )
    first = table.version
    changes = check(table, stream)
    assert sorted(change.values for change in changes) == [
        *[(1, "v1"), (1, "x"), (2, "v2")],
        *[(10, "x"), (12, "c")],
    ]
    assert not has_crafted_log(table, inserted)
    assert {change.values for change in table.changes(inserted)} == {
        (10, "a"),
        (11, "b"),
        (12, "c"),
    }
    assert not has_crafted_log(table, surviving)
    assert {change.values for change in table.check_inserts(surviving)} == {(10, "x"), (12, "c")}

    middle = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 12", "INSERT INTO {t} VALUES (20, NULL)")
    check(table, stream)
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {first}")
    check(table, stream)
    assert check(table, middle) == []


@pytest.mark.in_ci("no vectors")
@either_vectors
def test_plain_files_of_partitions_give_the_values_that_the_log_has(
    make_table: MakeTable, vectors: bool
) -> None:
    values = [
        "1, 'a', 7, true, DATE '2024-02-29', 1.50, named_struct('a', array(map('k', 1)))",
        "2, '', -1, false, NULL, -0.01, NULL",
        "3, NULL, NULL, NULL, DATE '0001-01-01', NULL, named_struct('a', NULL)",
    ]
    table = make_table(
        "id INT, s STRING, n BIGINT, b BOOLEAN, d DATE, m DECIMAL(5, 2),"
        " x STRUCT<a: ARRAY<MAP<STRING, INT>>>",
        *values,
        vectors=vectors,
        clause="PARTITIONED BY (s, n, b, d, m)",
        folder=PLAIN,
    )
    stream = table.stream()
    table.sql("UPDATE {t} SET id = id + 10 WHERE id < 3", "DELETE FROM {t} WHERE id = 3")

    assert len(check(table, stream)) == 2 * 2 + 1


@pytest.mark.thorough
def test_plain_files_may_have_columns_of_any_name(make_table: MakeTable) -> None:
    names = ["file", "at", "row", "row_id", "side", "partition", "base_row_id", "a.b"]
    columns = ", ".join(f"`{name}` STRING" for name in names)
    row = ", ".join(f"'{name}'" for name in names)
    table = make_table(f"id INT, {columns}", f"1, {row}", f"2, {row}", folder=PLAIN)
    stream = table.stream()
    table.sql("UPDATE {t} SET `at` = 'x', side = NULL, `a.b` = `file` WHERE id = 1")
    table.sql(f"INSERT INTO {{t}} VALUES (3, {row})")

    assert len(check(table, stream)) == 3


@pytest.mark.thorough
def test_plain_files_may_have_a_column_called_metadata(make_table: MakeTable) -> None:
    table = make_table("id INT, _metadata STRING", "1, 'a'", folder=PLAIN)
    stream = table.stream()
    table.sql("INSERT INTO {t} VALUES (2, 'b'), (3, NULL)")

    assert [change.values for change in check(table, stream)] == [(2, "b"), (3, None)]


@pytest.mark.thorough
@either_vectors
def test_plain_change_files_give_the_minimal_change_set(
    make_table: MakeTable, vectors: bool
) -> None:
    rows = [f"{i}, 'v{i}'" for i in range(8)]
    table = make_table(
        "id INT, v STRING", *rows, vectors=vectors, properties=FEED, folder=PLAIN
    ).read_by(Strategy.CHANGE_FILES)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id IN (1, 2)", "DELETE FROM {t} WHERE id = 2")
    table.sql("INSERT INTO {t} VALUES (9, 'new')", "UPDATE {t} SET v = 'newer' WHERE id = 9")
    # With deletion vectors, one data file shows both deletes, as it does for the delete above.
    table.sql("DELETE FROM {t} WHERE id = 3", "DELETE FROM {t} WHERE id = 4")
    assert table.plan(stream).strategy is Strategy.CHANGE_FILES

    assert len(check(table, stream)) == 2 + 1 + 2 + 1


@pytest.mark.thorough
@either_vectors
def test_many_plain_files_are_read_by_a_file_list(make_table: MakeTable, vectors: bool) -> None:
    rows = [f"{i}, {i % 40}" for i in range(80)]
    table = make_table(
        "id INT, p INT", *rows, vectors=vectors, clause="PARTITIONED BY (p)", folder=PLAIN
    )
    stream = table.stream()
    table.sql("UPDATE {t} SET id = -id WHERE id BETWEEN 1 AND 39", "DELETE FROM {t} WHERE id > 75")

    assert len(table.read(stream).rows.inputFiles()) > MANY
    assert len(check(table, stream)) == 2 * 39 + 4


@pytest.mark.thorough
def test_session_that_ignores_file_lists_reads_a_crafted_log(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, 'b'", folder=PLAIN)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    expected = check(table, stream)

    with settings(spark, {"spark.sql.streaming.fileStreamSink.ignoreMetadata": "true"}):
        assert has_crafted_log(table, stream)
        assert table.check(stream) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("interval", ["1", "2", "10"])
def test_file_sink_compaction_interval_does_not_change_the_rows_read(
    make_table: MakeTable, spark: SparkSession, interval: str
) -> None:
    table = make_table("id INT", "1", "2", folder=PLAIN)
    stream = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 1")

    with settings(spark, {"spark.sql.streaming.fileSink.log.compactInterval": interval}):
        assert len(check(table, stream)) == 1


def test_session_that_reads_files_by_data_source_v2_reads_a_crafted_log(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table("id INT", "1", "2", folder=PLAIN)
    stream = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 1")

    with settings(spark, {"spark.sql.sources.useV1SourceList": "csv,json"}):
        assert has_crafted_log(table, stream)
        assert len(table.check(stream)) == 1


def test_file_list_that_spark_does_not_see_never_gives_an_empty_change_set(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Scratch.write_list

    def unseen(scratch: Scratch, files: bytes) -> str:
        root = write(scratch, files)
        shutil.rmtree(Path(root) / sink_log.FOLDER)
        return root

    table = make_table("id INT", "1", "2", folder=PLAIN)
    stream = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 1")
    check(table, stream)
    monkeypatch.setattr(Scratch, "write_list", unseen)

    with pytest.raises(Py4JError, match="FAILED_READ_FILE"):
        table.read(stream).rows.collect()

    monkeypatch.setattr(file_lists, "_trusted", WeakSet())
    assert has_crafted_log(table, stream)
    assert len(table.check(stream)) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("folder", [PLAIN, "not so plain"])
def test_file_missing_at_its_read_fails_even_if_the_session_ignores_it(
    make_table: MakeTable, spark: SparkSession, folder: str
) -> None:
    table = make_table("id INT", folder=folder)
    stream = table.stream()
    table.sql("INSERT INTO {t} VALUES (1)", "INSERT INTO {t} VALUES (2)")
    with settings(spark, {"spark.sql.files.ignoreMissingFiles": "true"}):
        rows = table.read(stream).rows
        next(Path(table.location).glob("*.parquet")).unlink()

        with pytest.raises(Py4JError, match="FAILED_READ_FILE"):
            rows.collect()


@pytest.mark.thorough
@pytest.mark.parametrize("limit", ["MOST_FILES", "MOST_WORDS", "MOST_BYTES"])
def test_files_above_a_limit_are_read_through_a_crafted_log(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    table = make_table("id INT, v STRING", *[f"{i}, 'v{i}'" for i in range(4)], folder=PLAIN)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    expected = check(table, stream)
    assert expected == sorted(update(1, (1, "v1"), (1, "x")), key=repr)
    monkeypatch.setattr(plain_files, limit, 0)

    assert has_crafted_log(table, stream)
    assert table.check(stream) == expected


@pytest.mark.thorough
def test_inserts_in_many_files_use_a_crafted_log_that_filters_can_prune(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", folder=PLAIN)
    standard, inserted, surviving = table.stream(), table.inserted(), table.surviving()
    table.sql("INSERT INTO {t} VALUES (2, 'b')", "UPDATE {t} SET v = 'x' WHERE id = 1")
    later = table.stream()
    table.sql("INSERT INTO {t} VALUES (3, 'c')")
    monkeypatch.setattr(plain_files, "MOST_PRUNED_FILES", 0)

    assert not has_crafted_log(table, standard)
    for stream in (inserted, surviving, later):
        assert has_crafted_log(table, stream)


@pytest.mark.thorough
def test_columns_added_later_are_read_as_null_from_older_plain_files(make_table: MakeTable) -> None:
    table = make_table("id INT", "1", "2", "3", folder=PLAIN)
    stream = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 2", "ALTER TABLE {t} ADD COLUMN (v STRING, w INT)")
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "INSERT INTO {t} VALUES (4, 'y', 1)")

    assert len(check(table, stream)) == 1 + 2 + 1


def test_change_sets_are_refused_if_the_session_treats_names_as_patterns(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", folder=PLAIN)
    streams = table.stream(), table.inserted(), table.surviving()
    table.sql("INSERT INTO {t} VALUES (2, 'b')")
    name = "spark.sql.parser.quotedRegexColumnNames"
    for stream in streams:
        with settings(spark, {name: "true"}), pytest.raises(StreamUnusable, match=f"with {name}"):
            table.read(stream)
        assert table.changes(stream).total() == 1
