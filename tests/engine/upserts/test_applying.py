"""How much of a base an apply reads, and what it reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from stream_lab import Crash, CrashAt
from upsert_lab import Clock, UpsertLab

from airflow_provider_cdc.engine import Engine, ProtocolPoint, StreamCatalog
from airflow_provider_cdc.engine.core.upserts.job_records import JobClass
from airflow_provider_cdc.engine.spark.session.session_settings import settings
from airflow_provider_cdc.engine.spark.tables import pruning
from airflow_provider_cdc.engine.spark.tables.pruning import Pruning, TouchedShare
from airflow_provider_cdc.engine.spark.upserts import applying
from airflow_provider_cdc.engine.storage.delta.table_snapshots import newest_snapshot
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.jobs.model import ExportFormat, ExportTable, Request
from airflow_provider_cdc.jobs.run import run
from airflow_provider_cdc.jobs.slot_meter import slot_meter


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UpsertLab:
    """A base of four files, of keys 0 to 9, 10 to 19, 20 to 29 and 30 to 39."""
    monkeypatch.setattr(pruning, "WORTH_BYTES", 0)
    return UpsertLab.created(spark, tmp_path, four_files)


def four_files(spark: SparkSession, base: str) -> None:
    spark.range(0, 40, 1, numPartitions=4).selectExpr(
        "CAST(id AS INT) AS ID",
        "concat('v', id) AS Name",
        "CAST(id AS INT) AS Salary",
        "named_struct('sequence', repeat('0', 16), 'deleted_at', CAST(NULL AS TIMESTAMP)) AS _cdc",
    ).write.format("delta").mode("append").save(base)


def shares(outcome: Any) -> tuple[int, int]:
    metrics = outcome.statements[-1].metrics
    return metrics["baseBytesRead"], metrics["baseBytes"]


@pytest.mark.thorough
def test_files_without_a_key_of_a_change_are_not_read(lab: UpsertLab) -> None:
    lab.write((12, "new", 1, "UPSERT", "2"), (15, None, None, "DELETE", "2"))
    lab.write((99, "added", 99, "UPSERT", "2"))
    expected = lab.read()

    # Make the file of the first ten keys unreadable.
    (damaged,) = lab.spark.sql(
        f"SELECT DISTINCT _metadata.file_path FROM delta.`{lab.table()}` WHERE ID = 5"
    ).collect()
    file = Path(damaged[0].removeprefix("file:"))
    content = file.read_bytes()
    file.write_bytes(b"damaged")

    read, whole = shares(lab.apply())

    assert 0 < read < whole
    file.write_bytes(content)
    assert lab.applied() == expected
    found = {row[0]: row[2] for row in expected}
    assert (found[12], found[99], 15 in found, len(found)) == (1, 99, False, 40)


@pytest.mark.thorough
def test_braces_in_keys_are_text(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "WORTH_BYTES", 0)
    lab = UpsertLab(spark, tmp_path)
    schema = "`k'ü` STRING, v INT"
    lab.engine.create_upsert_table(lab.table(), schema, "k'ü")
    given = f"{schema}, _CHANGE_TYPE STRING"

    def write(*keys: str) -> None:
        rows = [(key, number, "UPSERT") for number, key in enumerate(keys)]
        lab.engine.write_changes(lab.table(), spark.createDataFrame(rows, given))

    for keys in (("a}b", "a{0}"), ("{550e8400}", "{z"), ("ü{", "ü}")):
        write(*keys)
        lab.apply()
    write("a}b", "new {key}")
    expected = lab.read()
    read, whole = shares(lab.apply())

    assert 0 < read < whole
    assert lab.applied() == expected
    assert len(expected) == 7


@pytest.mark.thorough
def test_bounds_with_quotes_are_text_under_any_escape_setting(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = UpsertLab(spark, tmp_path)
    schema = "`kü` STRING, v INT"

    def write(*keys: str) -> None:
        rows = [(key, len(keys), "UPSERT") for key in keys]
        given = f"{schema}, _CHANGE_TYPE STRING"
        lab.engine.write_changes(lab.table(), spark.createDataFrame(rows, given))

    with settings(spark, {"spark.sql.parser.escapedStringLiterals": "true"}):
        lab.engine.create_upsert_table(lab.table(), schema, "kü")
        for keys in (("A", "O'Brien"), ("OAKLEY", "OSLO", "P"), ("X", "Z")):
            write(*keys)
            lab.apply()
        total = newest_snapshot(lab.table(), Files()).size_bytes
        # The statistics alone show which files are touched.
        monkeypatch.setattr(pruning, "WORTH_BYTES", total // 2)
        write("OSLO")
        expected = lab.read()
        read, whole = shares(lab.apply())

    assert 0 < read < whole
    assert lab.applied() == expected
    assert len(expected) == 7


@pytest.mark.thorough
def test_base_is_read_whole_if_changes_touch_every_file(lab: UpsertLab) -> None:
    lab.write(*((key, "new", 0, "UPSERT", "2") for key in range(0, 40, 5)))
    expected = lab.read()

    read, whole = shares(lab.apply())

    assert read == whole
    assert lab.applied() == expected


@pytest.mark.thorough
def test_changes_after_the_pruning_check_wait_for_the_next_apply(
    lab: UpsertLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = Pruning.share

    def share_before_a_write(*arguments: Any) -> TouchedShare:
        monkeypatch.setattr(Pruning, "share", share)
        found = share(*arguments)
        # A change of another file, one older than a row of the base, and one of a key that waits
        # already.
        lab.write((35, "later", 5, "UPSERT", "9"), (14, "older", 6, "UPSERT", "4"))
        lab.write((12, "last", 7, "UPSERT", "6"))
        return found

    lab.write((14, "base", 0, "UPSERT", "5"))
    lab.apply()
    lab.write((12, "first", 1, "UPSERT", "6"), (13, None, None, "DELETE", "6"))
    at_the_look = lab.read()
    monkeypatch.setattr(Pruning, "share", share_before_a_write)
    read, whole = shares(lab.apply())

    assert 0 < read < whole
    assert lab.applied() == at_the_look
    expected = lab.read()
    lab.apply()
    assert lab.applied() == expected
    found = {row[0]: row[1] for row in expected if row[0] in (12, 14, 35)}
    assert found == {12: "last", 14: "base", 35: "later"}


@pytest.mark.thorough
@pytest.mark.parametrize("move", ["keep", "stream", "base"])
def test_apply_compares_rows_if_stream_or_base_moved_after_the_check(
    lab: UpsertLab, monkeypatch: pytest.MonkeyPatch, move: str
) -> None:
    look = applying.are_newer

    def look_before_a_write(*files: Any) -> bool:
        monkeypatch.setattr(applying, "are_newer", look)
        found = look(*files)
        if move == "base":
            lab.spark.sql(f"DELETE FROM delta.`{lab.table()}` WHERE ID = 30")
        elif move == "stream":
            status = lab.engine.describe_upsert_table(lab.table())
            streams = StreamCatalog(str(lab.root / "state")).for_upserts()
            streams.alter_stream(status.stream, comment="another")
        else:
            lab.write((12, "newest", 9, "UPSERT", "9"))
            with pytest.raises(Crash):
                lab.apply(lab.new_engine(CrashAt(ProtocolPoint.BEFORE_COMMIT)))
            status = lab.engine.describe_upsert_table(lab.table())
            lab.engine.abort_consumption(status.stream, keep=[f"delta.`{lab.table()}`"])
        return found

    lab.write((12, "first", 1, "UPSERT", "2"))
    monkeypatch.setattr(applying, "are_newer", look_before_a_write)
    lab.apply()

    assert texts_of(lab)[0] == "compared"
    assert {row[0]: row[1] for row in lab.applied()}[12] == (
        "newest" if move == "keep" else "first"
    )
    assert lab.apply() is None


def texts_of(lab: UpsertLab, table: str = "") -> list[str]:
    """Whether each MERGE compared changes with the rows of a table, newest first."""
    history = f"DESCRIBE HISTORY delta.`{table or lab.table()}`"
    found = lab.spark.sql(history).where("operation = 'MERGE'")
    parameters = [row["operationParameters"] for row in found.orderBy(F.desc("version")).collect()]
    return ["compared" if "sequence" in each["matchedPredicates"] else "not" for each in parameters]


@pytest.mark.thorough
def test_changes_newer_than_all_rows_are_applied_without_comparison(
    lab: UpsertLab,
) -> None:
    for number, kind in (("2", "UPSERT"), ("3", "DELETE"), ("4", "UPSERT")):
        lab.write((12, "a", int(number), kind, number), (50, "b", int(number), kind, number))
        expected = lab.read()
        lab.apply()
        assert lab.applied() == expected
    assert texts_of(lab) == ["not"] * 3
    # A change that is newer than the row of its key, but not newer than every row.
    lab.write((13, "c", 1, "UPSERT", "3"), (12, "late", 0, "UPSERT", "1"))
    expected = lab.read()
    lab.apply()
    assert lab.applied() == expected
    assert {row[0]: row[1] for row in expected}[13] == "c"
    assert {row[0]: row[1] for row in expected}[12] == "a"
    assert texts_of(lab)[0] == "compared"


@pytest.mark.thorough
def test_changes_are_compared_if_newer_ones_were_applied_after_the_check(
    lab: UpsertLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write((12, "first", 1, "UPSERT", "5"))
    look = applying.are_newer

    def look_before_an_apply(*files: Any) -> bool:
        monkeypatch.setattr(applying, "are_newer", look)
        found = look(*files)
        lab.write((12, "newest", 9, "UPSERT", "9"))
        lab.apply(lab.new_engine())
        lab.write((12, "late", 7, "UPSERT", "7"))
        return found

    monkeypatch.setattr(applying, "are_newer", look_before_an_apply)
    lab.apply()

    assert {row[0]: row[1] for row in lab.applied()}[12] == "newest"
    assert texts_of(lab)[:2] == ["compared", "not"]
    assert lab.apply() is None


@pytest.mark.thorough
@pytest.mark.parametrize(
    "point",
    [
        ProtocolPoint.BEFORE_STATEMENT,
        ProtocolPoint.AFTER_STATEMENT,
        ProtocolPoint.BEFORE_COMMIT,
    ],
)
@pytest.mark.parametrize("later", ["1", "5"], ids=["older", "newer"])
def test_killed_apply_of_newer_changes_is_finished_by_the_next_apply(
    lab: UpsertLab, point: ProtocolPoint, later: str
) -> None:
    lab.write((12, "first", 1, "UPSERT", "2"), (13, "first", 1, "UPSERT", "2"))
    lab.apply()
    lab.write((12, None, None, "DELETE", "3"), (13, "second", 2, "UPSERT", "3"))
    with pytest.raises(Crash):
        lab.apply(lab.new_engine(CrashAt(point)))
    lab.write((12, "later", 3, "UPSERT", later), (13, "later", 3, "UPSERT", later))
    expected = lab.read()
    while lab.apply() is not None:
        pass

    assert lab.applied() == expected
    found = {row[0]: row[1] for row in expected if row[0] in (12, 13)}
    assert found == ({13: "second"} if later == "1" else {12: "later", 13: "later"})


@pytest.mark.thorough
def test_jobs_are_recorded_by_their_class(lab: UpsertLab, spark: SparkSession) -> None:
    clock = Clock()
    engine = Engine(spark, str(lab.root / "state"), clock=clock, slot_meter=slot_meter(spark))
    engine.alter_upsert_table(lab.table(), max_staleness="PT10M")
    lab.write((1, "new", 1, "UPSERT", "2"))
    since = engine.describe_upsert_table(lab.table()).pending_since
    assert since is not None
    clock.now = since

    assert engine.query_upsert_table(lab.table(), lambda rows: rows.count()) == 40
    engine.alter_upsert_table(lab.table(), max_staleness=None)
    assert (
        engine.query_upsert_table(lab.table(), lambda rows: rows.where("ID = 1").first()["Salary"])
        == 1
    )
    engine.apply_upserts(lab.table())

    jobs = lab.spark.read.format("delta").load(str(lab.root / "state" / "upsert_jobs"))
    lately = jobs.where("slot_ms IS NOT NULL").collect()
    found = {row["job_class"]: row for row in lately}
    assert set(found) == {job_class.value for job_class in JobClass}
    assert [found[each.value]["rows"] for each in JobClass] == [1, 0, 1]
    assert all(row["slot_ms"] > 0 and row["read_bytes"] > 0 for row in lately)
    usage = {each.job_class: each for each in engine.upsert_usage()}
    assert {each.jobs for each in usage.values()} == {1}
    assert usage[JobClass.BACKGROUND_APPLY].slots > 0


def test_export_of_an_upsert_table_merges_waiting_changes(lab: UpsertLab) -> None:
    lab.write((1, "new", 1, "UPSERT", "2"))
    for target, kind in ((lab.path("out"), ExportFormat.DELTA), ("files", ExportFormat.JSON)):
        folder = str(lab.root / target)
        task = ExportTable(lab.table(), folder, "run 1", kind)
        request = Request("r", str(lab.root / "state"), task)
        assert run(request, lab.spark).error is None
        found = lab.spark.read.format(kind.value).load(folder)
        assert sorted(found.columns) == ["ID", "Name", "Salary"]
        assert found.where("ID = 1").select("Name", "Salary").collect() == [("new", 1)]
        assert found.count() == 40
    assert lab.engine.upsert_usage()[0].job_class is JobClass.RUN_TIME_MERGE
    assert lab.apply() is not None


def test_wide_table_applies_newer_changes_without_comparison(lab: UpsertLab) -> None:
    table, names = lab.path("wide"), [f"c{number}" for number in range(40)]
    schema = ", ".join(f"{name} INT" for name in names)
    lab.engine.create_upsert_table(table, schema, "c0")
    for number in (1, 2):
        row = (*[number] * 39, 7, "UPSERT", str(number))
        rows = lab.spark.createDataFrame(
            [row], f"{schema}, _CHANGE_TYPE STRING, _CHANGE_SEQUENCE_NUMBER STRING"
        )
        lab.engine.write_changes(table, rows)
        assert lab.engine.apply_upserts(table) is not None
    assert lab.engine.read_upsert_table(table).columns == names
    assert texts_of(lab, table) == ["not", "not"]


def test_failed_query_is_not_recorded_as_a_job(lab: UpsertLab) -> None:
    before = len(lab.engine.upsert_usage())

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lab.engine.query_upsert_table(lab.table(), fail)
    assert len(lab.engine.upsert_usage()) == before
