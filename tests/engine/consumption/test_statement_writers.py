"""What the consumption protocol relies on, of every writer of statements."""

from __future__ import annotations

from pathlib import Path

import pytest
from delta_rs import DeltaRsWriter, Views
from deltalake import DeltaTable
from plain_tables import read_plain_rows
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import InvalidStatement
from airflow_provider_cdc.engine.consumption.ports import StatementWriter
from airflow_provider_cdc.engine.core.sql.statements import analyse
from airflow_provider_cdc.engine.spark.consumption.statement_writer import SparkWriter
from airflow_provider_cdc.engine.storage.files.stores import Files

APP = "cdc-1-0"


@pytest.fixture(autouse=True)
def _quick_restore() -> None:
    """These tests compare the RESTORE of Spark itself with that of delta-rs."""


@pytest.fixture(params=["delta_rs", "spark"])
def writer(request: pytest.FixtureRequest, spark: SparkSession) -> StatementWriter:
    if request.param == "spark":
        return SparkWriter(spark, Files())
    return DeltaRsWriter(Views())


@pytest.fixture
def table(tmp_path: Path, writer: StatementWriter) -> str:
    """A table with the rows 1 and 2."""
    location = str(tmp_path / "table")
    writer.create(f"CREATE TABLE delta.`{location}` USING delta AS SELECT 1 AS id", "made")
    writer.run(f"INSERT INTO delta.`{location}` SELECT 2", location, "setup", 1, ())
    return location


def insert(location: str, value: str = "3") -> str:
    return f"INSERT INTO delta.`{location}` SELECT {value}"


def rows(location: str) -> list[int]:
    return sorted(row[0] for row in read_plain_rows(location) or ())


def version(location: str) -> int:
    return DeltaTable(location).version()


def test_run_commits_once_with_its_transaction(writer: StatementWriter, table: str) -> None:
    for _ in range(2):
        writer.run(insert(table), table, APP, 1, ())

    assert (rows(table), version(table)) == ([1, 2, 3], 2)
    assert DeltaTable(table).transaction_version(APP) == 1


def test_record_commits_its_transaction_without_a_row(writer: StatementWriter, table: str) -> None:
    for _ in range(2):
        writer.record(table, APP, 2)

    assert (rows(table), version(table)) == ([1, 2], 2)
    assert DeltaTable(table).transaction_version(APP) == 2


def test_run_is_skipped_after_a_later_transaction(writer: StatementWriter, table: str) -> None:
    writer.record(table, APP, 2)
    writer.run(insert(table), table, APP, 1, ())

    assert (rows(table), version(table)) == ([1, 2], 2)


def test_statement_that_fails_has_ended_without_a_commit(
    writer: StatementWriter, table: str
) -> None:
    with pytest.raises(Exception, match="x") as caught:
        writer.run(insert(table, "CAST('x' AS INT)"), table, APP, 1, ())

    failure = writer.failure(caught.value)
    assert failure.has_ended
    assert not failure.table_exists
    assert (rows(table), version(table)) == ([1, 2], 1)


@pytest.mark.thorough
def test_restore_commits_the_earlier_rows_with_its_mark(
    writer: StatementWriter, table: str
) -> None:
    writer.run(insert(table), table, APP, 1, ())
    writer.restore(table, 1, "undone")

    assert (rows(table), version(table)) == ([1, 2], 3)
    assert DeltaTable(table).history(1)[0]["userMetadata"] == "undone"
    # A restore keeps the transaction, so the statement cannot be applied again.
    assert DeltaTable(table).transaction_version(APP) == 1


def test_restore_fails_if_a_file_is_missing(writer: StatementWriter, table: str) -> None:
    writer.run(f"DELETE FROM delta.`{table}` WHERE id = 2", table, APP, 1, ())
    before, after = (
        set(DeltaTable(table, version=version).get_add_actions()["path"].to_pylist())
        for version in (1, 2)
    )
    removed = min(before - after)
    Path(table, removed).unlink()

    with pytest.raises(Exception, match=removed):
        writer.restore(table, 1, "undone")

    assert version(table) == 2


def test_create_commits_its_mark(writer: StatementWriter, table: str) -> None:
    assert DeltaTable(table).history()[-1]["userMetadata"] == "made"


def test_create_of_a_table_that_exists_fails_and_writes_nothing(
    writer: StatementWriter, table: str
) -> None:
    with pytest.raises(Exception, match="exists") as caught:
        writer.create(f"CREATE TABLE delta.`{table}` USING delta AS SELECT 'a' AS v", "again")

    assert writer.failure(caught.value).table_exists
    assert (rows(table), version(table)) == ([1, 2], 1)


def test_check_refuses_an_unknown_column_and_writes_nothing(
    writer: StatementWriter, table: str
) -> None:
    with pytest.raises(InvalidStatement, match="nope"):
        writer.check(analyse(insert(table, f"nope FROM delta.`{table}`"), []), {})
    writer.check(analyse(insert(table), []), {})

    assert (rows(table), version(table)) == ([1, 2], 1)
