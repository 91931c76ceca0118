"""How upsert tables are made, named, refused and dropped."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from stream_lab import Crash, StreamLab
from upsert_lab import SALARIES, UpsertLab

from airflow_provider_cdc.engine import (
    InvalidRequest,
    NotADeltaTable,
    TableExists,
    TableNotFound,
)
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.jobs.model import Answer, Request, Task
from airflow_provider_cdc.jobs.run import run
from airflow_provider_cdc.jobs.upsert_tasks import (
    AddColumns,
    AlterUpsertTable,
    CreateUpsertTable,
    DropUpsertTable,
)


@pytest.mark.parametrize("kind", ["VARCHAR(3)", "ARRAY<CHAR(5)>"])
def test_column_with_a_length_is_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    lab = UpsertLab(spark, tmp_path)
    with pytest.raises(InvalidRequest, match="expected STRING"):
        lab.engine.create_upsert_table(lab.table(), f"ID INT, code {kind}", "ID")
    assert not Path(lab.table()).exists()


@pytest.mark.thorough
def test_schema_of_a_table_gives_only_names_and_types(spark: SparkSession, tmp_path: Path) -> None:
    """A delete writes a row with its key alone, so no other column can be NOT NULL."""
    lab = UpsertLab(spark, tmp_path)
    schema = "ID INT NOT NULL, Name STRING NOT NULL COMMENT 'of a person', Salary INT"
    made = lab.engine.create_upsert_table(lab.table(), schema, "ID")
    assert [(each.name, each.type) for each in made.columns] == [
        ("ID", "int"),
        ("Name", "string"),
        ("Salary", "int"),
    ]
    lab.write((1, None, 10, "UPSERT"))
    lab.apply()
    assert lab.read() == [(1, None, 10)]


@pytest.mark.thorough
def test_existing_rows_enter_as_upserts_older_than_numbered_changes(
    lab: UpsertLab,
) -> None:
    lab.make("old", SALARIES)
    lab.sql("INSERT INTO {old} VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)")
    # A change that arrived meanwhile is newer, although it is written first.
    lab.write((1, "new", 11, "UPSERT", "1"), (3, None, None, "DELETE", "1"))
    old = lab.spark.table(lab.name("old")).selectExpr("*", "'UPSERT' AS _CHANGE_TYPE")
    lab.engine.write_changes(lab.table(), old)
    lab.apply()
    assert lab.read() == [(1, "new", 11), (2, "b", 20)]


def test_copy_of_a_table_is_refused_and_its_drop_keeps_the_original(lab: UpsertLab) -> None:
    lab.write((1, "a", 10, "UPSERT"))
    copy = lab.path("copy")
    shutil.copytree(lab.table(), copy)

    for use in (
        lab.engine.apply_upserts,
        lab.engine.read_upsert_table,
        lab.engine.describe_upsert_table,
        lambda name: lab.engine.write_changes(name, lab.frame([(2, "b", 20, "UPSERT")])),
        lambda name: lab.engine.alter_upsert_table(name, max_staleness=None),
    ):
        with pytest.raises(InvalidRequest, match="was copied or moved"):
            use(copy)
    lab.engine.drop_upsert_table(copy)

    assert not Path(copy).exists()
    lab.apply()
    assert lab.applied() == [(1, "a", 10)]


def test_table_with_one_altered_part_can_be_dropped(lab: UpsertLab) -> None:
    lab.sql("ALTER TABLE {t} ADD COLUMNS (Age INT)")
    lab.engine.drop_upsert_table(lab.table())
    assert not Path(lab.table()).exists()


def test_comment_on_a_field_of_the_base_does_not_change_its_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)
    lab.engine.create_upsert_table(lab.table(), "ID INT, s STRUCT<x: INT>", "ID")
    lab.sql("ALTER TABLE {t} ALTER COLUMN s.x COMMENT 'a field'")
    rows = spark.sql("SELECT 1 AS ID, struct(2 AS x) AS s, 'UPSERT' AS _CHANGE_TYPE")

    lab.engine.write_changes(lab.table(), rows)

    assert lab.engine.read_upsert_table(lab.table()).count() == 1


def test_killed_creation_of_the_base_is_done_by_the_next_call(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)
    (Path(lab.table()) / "_delta_log").mkdir(parents=True)

    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")

    assert lab.engine.read_upsert_table(lab.table()).count() == 0


def test_existing_upsert_table_is_not_created_again(lab: UpsertLab) -> None:
    with pytest.raises(TableExists):
        lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID", if_not_exists=True)


@pytest.mark.thorough
def test_key_columns_without_statistics_still_identify_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)
    schema = "flag BOOLEAN, code BINARY, v INT"
    lab.engine.create_upsert_table(lab.table(), schema, ["flag", "code"])
    rows = [(True, b"x", 1, "UPSERT"), (False, b"x", 2, "UPSERT"), (True, b"x", 3, "UPSERT")]
    given = f"{schema}, _CHANGE_TYPE STRING"
    lab.engine.write_changes(lab.table(), spark.createDataFrame(rows, given))
    lab.apply()

    assert [row[2] for row in lab.applied()] == [2, 3]


def test_clustering_by_an_unknown_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lab = UpsertLab(spark, tmp_path)
    with pytest.raises(InvalidRequest, match="there is no column nothing"):
        lab.engine.create_upsert_table(lab.table(), SALARIES, "ID", cluster_by=["nothing"])


def test_unfinished_table_refuses_use_until_its_creation_is_finished(
    lab: UpsertLab,
) -> None:
    shutil.rmtree(lab.changes())
    # A killed CREATE TABLE leaves this folder without a commit.
    log = Path(lab.changes()) / "_delta_log"
    log.mkdir(parents=True)
    lab.engine.drop_stream(lab.engine.describe_streams()[0].name)
    for call in (
        lambda: lab.write((1, "a", 1, "UPSERT")),
        lambda: lab.engine.change_sink(lab.table(), query="q"),
        lab.read,
        lab.apply,
    ):
        with pytest.raises(InvalidRequest, match="is not complete"):
            call()
    assert not list(log.iterdir())

    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID", if_not_exists=True)
    lab.write((1, "a", 1, "UPSERT"))
    lab.apply()
    assert lab.applied() == [(1, "a", 1)]


def test_table_that_is_not_an_upsert_table_is_refused(lab: UpsertLab) -> None:
    lab.make("plain", "id INT")
    for call in (
        lab.engine.apply_upserts,
        lab.engine.read_upsert_table,
        lab.engine.describe_upsert_table,
    ):
        with pytest.raises(InvalidRequest, match="is not an upsert table"):
            call(lab.path("plain"))


def test_error_distinguishes_a_plain_table_or_view_from_a_missing_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)
    spark.sql("CREATE SCHEMA IF NOT EXISTS plain_lab")
    spark.sql("CREATE OR REPLACE TABLE plain_lab.plain (id INT) USING delta")
    spark.sql("CREATE OR REPLACE VIEW plain_lab.shown AS SELECT * FROM plain_lab.plain")
    rows = spark.table("plain_lab.plain")
    engine = lab.engine
    calls: tuple[Callable[[str], Any], ...] = (
        lambda name: engine.write_changes(name, rows),
        lambda name: engine.change_sink(name, query="q"),
        lambda name: engine.drop_upsert_table(name, if_exists=True),
        lambda name: engine.add_columns(name, "v INT"),
        lambda name: engine.alter_upsert_table(name, max_staleness="PT1M"),
        engine.apply_upserts,
        engine.read_upsert_table,
        engine.redrive_changes,
        engine.recommended_max_staleness,
        engine.describe_upsert_table,
    )
    for call in calls:
        for name in ("plain_lab.plain", "plain_lab.shown"):
            with pytest.raises(InvalidRequest, match=f"table {name}: is not an upsert table"):
                call(name)
    for name, where in (("plain_lab.nothing", "catalog"), (lab.path("nothing"), "the path")):
        with pytest.raises(TableNotFound, match=f"upsert table {name}: .*Fix: .*{where}") as caught:
            engine.read_upsert_table(name)
        assert str(caught.value).count("Cause: ") == str(caught.value).count("Fix: ") == 1
    engine.drop_upsert_table("plain_lab.nothing", if_exists=True)


@pytest.mark.thorough
@pytest.mark.parametrize("partial", [False, True], ids=["whole rows", "parts of rows"])
def test_changes_with_a_composite_key_and_odd_names_are_applied(
    spark: SparkSession, tmp_path: Path, partial: bool
) -> None:
    lab = UpsertLab(spark, tmp_path)
    schema = (
        "`Tag'e` DATE, `größe\\1` STRING, `a.b` STRUCT<`my-field`: INT, y: ARRAY<INT>>, `Ö'\\n` INT"
    )
    lab.engine.create_upsert_table(
        lab.table(), schema, ["tag'e", "größe\\1"], partial_changes=partial
    )
    day = datetime(2026, 1, 1).date()
    given = f"{schema}, _CHANGE_TYPE STRING"
    rows: list[tuple[Any, ...]]
    rows = [(day, "a", (1, [2]), 5, "UPSERT"), (day, "b", (3, None), 6, "UPSERT")]
    lab.engine.write_changes(lab.table(), spark.createDataFrame(rows, given))

    assert [tuple(row)[1] for row in lab.read()] == ["a", "b"]
    lab.apply()
    assert lab.read() == [(day, "a", (1, [2]), 5), (day, "b", (3, None), 6)]
    given += ", _CHANGE_SEQUENCE_NUMBER STRING"
    rows = [(day, "b", (4, []), 7, "UPSERT", "1")]
    if partial:
        given += ", _CHANGE_UNCHANGED ARRAY<STRING>"
        rows = [(*rows[0], ["a.B"]), (day, "a", None, 8, "UPSERT", "1", ["ö'\\N"])]
    lab.engine.write_changes(lab.table(), spark.createDataFrame(rows, given))
    expected = [(day, "a", (1, [2]), 5), (day, "b", (4, []), 7)]
    if partial:
        expected = [(day, "a", None, 5), (day, "b", (3, None), 7)]
    assert lab.read() == expected
    lab.apply()
    assert lab.applied() == expected


def test_jobs_create_finish_alter_and_drop_an_upsert_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)

    def answer(task: Task) -> Answer:
        return run(Request(uuid.uuid4().hex, str(lab.root / "state"), task), spark)

    ten = timedelta(minutes=10)
    create = CreateUpsertTable(lab.table(), SALARIES, ("id",), ten, cluster_by=("Name",))
    made = answer(create)
    assert made.upsert_table is not None
    assert (made.upsert_table.primary_key, made.upsert_table.max_staleness) == (("ID",), ten)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{lab.table()}`").first()
    assert detail is not None
    assert detail["clusteringColumns"] == ["Name"]
    again = answer(create)
    assert again.error is not None
    assert not again.error.retryable

    shutil.rmtree(lab.changes())
    lab.engine.drop_stream(made.upsert_table.stream)
    retry = msgspec.structs.replace(create, if_not_exists=True)
    finished = answer(retry)
    assert finished.upsert_table == made.upsert_table

    for longest, shown in ((timedelta(hours=1), "0-0 0 1:0:0 (1 hour)"), (None, None)):
        alter = AlterUpsertTable(lab.table(), longest)
        altered = answer(alter)
        assert altered.error is None
        status = lab.engine.describe_upsert_table(lab.table())
        assert status.max_staleness == shown
        assert lab.engine.describe_stream(status.stream).max_lag == longest

    horizon = AlterUpsertTable(
        lab.table(), None, keeps_max_staleness=True, tombstone_horizon=timedelta(days=3)
    )
    assert answer(horizon).error is None
    assert lab.engine.describe_upsert_table(lab.table()).tombstone_horizon == "0-0 3 0:0:0 (3 days)"

    add = AddColumns(lab.table(), "Phone STRING")
    added = answer(add)
    assert added.upsert_table is not None
    assert [column.name for column in added.upsert_table.columns][-1] == "Phone"
    for if_exists, kind in ((False, None), (False, "table_not_found"), (True, None)):
        drop = DropUpsertTable(lab.table(), if_exists)
        dropped = answer(drop)
        assert (dropped.error and dropped.error.kind) == kind


@pytest.mark.thorough
def test_dropped_table_leaves_nothing_and_can_be_created_again(lab: UpsertLab) -> None:
    lab.write((1, "a", 1, "UPSERT"))
    lab.engine.drop_upsert_table(lab.table())
    assert not Path(lab.table()).exists()
    assert lab.engine.describe_streams() == []
    with pytest.raises(TableNotFound):
        lab.engine.drop_upsert_table(lab.table())

    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    assert lab.read() == []
    # A call was killed after it had deleted the log.
    lab.engine._parts.catalog.for_upserts().drop_stream(lab.engine.describe_streams()[0].name)
    shutil.rmtree(Path(lab.table(), "_delta_log"))
    lab.engine.drop_upsert_table(lab.table())
    assert not Path(lab.table()).exists()


def test_killed_drop_is_finished_by_the_next_drop(
    lab: UpsertLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write((1, "a", 1, "UPSERT"))
    lab.apply()

    def killed(*_: object) -> None:
        raise Crash("before the files are removed")

    with monkeypatch.context() as patch:
        patch.setattr(Files, "remove_all_but", killed)
        with pytest.raises(Crash):
            lab.engine.drop_upsert_table(lab.table())
    assert list(Path(lab.table()).glob("*.parquet"))

    lab.engine.drop_upsert_table(lab.table())
    assert not Path(lab.table()).exists()


@pytest.mark.parametrize("beside", ["orders", "_cdc/registry"])
def test_folder_that_is_not_an_upsert_table_is_not_removed(lab: UpsertLab, beside: str) -> None:
    folder = Path(lab.path("lake"))
    (folder / "_cdc" / "changes").mkdir(parents=True)
    (folder / beside).mkdir()
    with pytest.raises(NotADeltaTable):
        lab.engine.drop_upsert_table(str(folder))
    assert (folder / beside).exists()


def test_upkeep_beside_a_drop_leaves_no_files(lab: UpsertLab) -> None:
    lab.write((1, "a", 1, "UPSERT"))
    tables = lab.engine._parts.upsert_tables
    table = tables.whole(lab.table())
    lab.engine.drop_upsert_table(lab.table())

    lab.engine._parts.upkeep.run_when_due(table)
    assert not Path(lab.table()).exists()


@pytest.fixture
def named(spark: SparkSession, tmp_path: Path) -> Iterator[StreamLab]:
    spark.sql("CREATE SCHEMA IF NOT EXISTS upserts_lab")
    spark.sql("USE upserts_lab")
    yield StreamLab(spark, tmp_path)
    spark.sql("USE default")
    spark.sql("DROP SCHEMA upserts_lab CASCADE")


def test_table_of_the_catalog_shows_only_its_data_columns(
    named: StreamLab, spark: SparkSession
) -> None:
    engine = named.engine
    engine.create_upsert_table(
        "employees", "id INT, name STRING", "id", max_staleness="INTERVAL 10 MINUTE"
    )
    rows = [(1, "a", "UPSERT", "1"), (2, "b", "UPSERT", "1"), (3, None, "DELETE", "1")]
    given = "id INT, name STRING, _CHANGE_TYPE STRING, _CHANGE_SEQUENCE_NUMBER STRING"
    engine.write_changes("employees", spark.createDataFrame(rows, given))
    engine.apply_upserts("employees")

    assert spark.table("employees").columns == ["id", "name"]
    assert sorted(map(tuple, spark.table("employees").collect())) == [(1, "a"), (2, "b")]
    properties = spark.sql("SHOW TBLPROPERTIES employees__base").collect()
    assert ("airflow_provider_cdc.upsert.max_staleness", "P0DT600S") in map(tuple, properties)
    assert engine.describe_upsert_table("employees").primary_key == ("id",)

    engine.add_columns("employees", "phone STRING")
    assert spark.table("employees").columns == ["id", "name", "phone"]

    engine.drop_upsert_table("employees")
    assert spark.sql("SHOW TABLES").collect() == []


def test_table_recreated_after_a_sql_drop_has_a_view_of_its_columns(
    named: StreamLab, spark: SparkSession
) -> None:
    engine = named.engine
    engine.create_upsert_table("again", "id INT", "id")
    spark.sql("DROP TABLE again__base")

    engine.create_upsert_table("again", "id INT, name STRING", "id")

    assert spark.table("again").columns == ["id", "name"]


@pytest.mark.parametrize(
    "kind", ["TABLE taken (id INT) USING delta", "VIEW taken AS SELECT 1 AS id"]
)
def test_name_of_another_table_or_view_is_refused(
    named: StreamLab, spark: SparkSession, kind: str
) -> None:
    spark.sql(f"CREATE {kind}")
    for if_not_exists in (False, True):
        with pytest.raises(TableExists, match="exists already"):
            named.engine.create_upsert_table("taken", "id INT", "id", if_not_exists=if_not_exists)
    assert not spark.catalog.tableExists("taken__base")
