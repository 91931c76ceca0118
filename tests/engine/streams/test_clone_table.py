"""Clones keep the row ids of their source, and streams on both stay exact."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign_files import add_rows, delete_rows
from oracle import FILES, MakeTable, SourceTable, at
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from stream_lab import StreamLab, row_ids

from airflow_provider_cdc.engine import (
    ChangeTrackingDisabled,
    InvalidRange,
    InvalidRequest,
    NotADeltaTable,
    OffsetOf,
    Strategy,
    TableExists,
    TableNotFound,
    Timestamp,
    Version,
)
from airflow_provider_cdc.engine.spark.tables.cloning import Cloning
from airflow_provider_cdc.engine.storage.files.scratch import Scratch
from airflow_provider_cdc.engine.storage.files.stores import Files

COLUMNS = "id INT, v STRING"
ROWS = tuple(f"{number}, 'v{number}'" for number in range(8))
TRACKED = "'delta.enableRowTracking' = 'true'"
# Gives rows of the source many commit versions, in the file actions and in the files.
HISTORY = (
    "UPDATE {t} SET v = 'two' WHERE id = 1",
    "INSERT INTO {t} SELECT 10 + id, 'three' FROM range(2)",
    "DELETE FROM {t} WHERE id = 2",
    "OPTIMIZE {t}",
    "UPDATE {t} SET v = 'six' WHERE id IN (3, 10)",
    "INSERT INTO {t} SELECT 20 + id, 'seven' FROM range(2)",
)
MERGE = (
    "MERGE INTO {t} USING (SELECT explode(array(4, 5, 90)) AS key) ON id = key"
    " WHEN MATCHED AND key = 4 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged'"
    " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (key, 'new')"
)
ALL_ROWS = "UPDATE {t} SET v = concat(v, '!')"
LATER = (
    "DELETE FROM {t} WHERE id = 7",
    ALL_ROWS,
    "DELETE FROM {t} WHERE id = 0",
    MERGE,
    ALL_ROWS,
    "OPTIMIZE {t}",
    "UPDATE {t} SET v = 'x' WHERE id < 6",
    "INSERT INTO {t} VALUES (91, 'inserted')",
    ALL_ROWS,
    "DELETE FROM {t} WHERE id > 20 AND id < 30",
)

CloneOf = Callable[..., SourceTable]


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    return StreamLab(spark, tmp_path)


@pytest.fixture
def clone_of(lab: StreamLab, scratch: Scratch) -> CloneOf:
    """Clones a table to a folder next to it."""

    def clone(source: SourceTable, folder: str = "clone ü") -> SourceTable:
        target = str(lab.root / folder)
        assert lab.engine.clone_table(source.location, target) == source.version
        return SourceTable(source.spark, target, scratch, source.strategy)

    return clone


def ids(table: SourceTable) -> dict[int, tuple[object, ...]]:
    """The rows of a table by their row ids."""
    snapshot = table._snapshot(table.version)
    return snapshot.rows_by_id(snapshot.schema, {})


def check_steps(table: SourceTable, *statements: str) -> None:
    """Check streams from before the first of ``statements`` and from before each of them."""
    whole, surviving = table.stream(), table.surviving()
    for statement in statements:
        stream, inserted = table.stream(), table.inserted()
        table.sql(statement)
        found = table.check(stream)
        if statement == ALL_ROWS:
            assert len(found) == 2 * len(ids(table))
        new = sum(change.action == "INSERT" and not change.is_update for change in found)
        assert table.changes(inserted).total() == new
    table.check(whole)
    table.check_inserts(surviving)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("vectors", "folder"),
    [(True, "täble 1"), (False, "täble 1"), (True, "plain")],
    ids=["vectors", "ids first", "plain files"],
)
def test_streams_on_a_clone_are_exact_after_any_write(
    make_table: MakeTable, clone_of: CloneOf, vectors: bool, folder: str
) -> None:
    source = make_table(COLUMNS, *ROWS, vectors=vectors, folder=folder, writes=HISTORY)
    before = ids(source)
    clone = clone_of(source, folder=f"clone of {folder}" if " " in folder else "clone")
    assert ids(clone) == before
    assert clone.version == 0

    # The clone gets more commits than the source has versions, so each version number recurs.
    assert len(LATER) > source.version
    check_steps(clone, *LATER)

    assert ids(source) == before


@pytest.mark.thorough
def test_streams_on_a_table_and_on_its_clone_give_the_same_row_ids(lab: StreamLab) -> None:
    lab.make("src", COLUMNS, properties=TRACKED)
    lab.sql("INSERT INTO {src} SELECT id, 'a' FROM range(6)", "UPDATE {src} SET v = 'b'")
    version = lab.engine.clone_table(lab.path("src"), lab.path("clone"))
    assert version == 2
    lab.sql("INSERT INTO {src} VALUES (7, 'in the source')")
    lab.engine.create_stream("s", on_table=lab.path("src"), at=Version(version))
    lab.engine.create_stream("c", on_table=lab.path("clone"))
    assert (lab.engine.stream_has_data("s"), lab.engine.stream_has_data("c")) == (True, False)

    lab.sql("UPDATE {src} SET v = concat(v, id) WHERE id < 5", "DELETE FROM {src} WHERE id = 0")
    for number in range(5):
        lab.sql(f"UPDATE {{clone}} SET v = 'c{number}' WHERE id = {number}")
    lab.sql("DELETE FROM {clone} WHERE id = 0", "INSERT INTO {clone} VALUES (8, 'in the clone')")

    of_source, of_clone = (row_ids(lab.changes(name)) for name in "sc")
    shared = of_source.keys() & of_clone.keys()
    assert shared == set(range(5))
    assert all(of_source[key] == of_clone[key] for key in shared)
    assert len(lab.seen("c")) == 1 + 4 * 2 + 1
    lab.sql("CREATE TABLE {copy} USING delta AS SELECT id, 'b' AS v FROM range(6)")
    lab.consume(
        "MERGE INTO {copy} t USING (SELECT * FROM c WHERE METADATA$ACTION = 'INSERT' OR NOT"
        " METADATA$ISUPDATE) c ON t.id = c.id WHEN MATCHED AND METADATA$ACTION = 'DELETE' THEN"
        " DELETE WHEN MATCHED THEN UPDATE SET v = c.v WHEN NOT MATCHED THEN INSERT (id, v)"
        " VALUES (c.id, c.v)"
    )
    assert lab.rows("copy") == lab.rows("clone")
    assert lab.engine.stream_has_data("c") is False


@pytest.mark.thorough
def test_streams_on_the_source_of_a_clone_stay_exact(
    make_table: MakeTable, clone_of: CloneOf
) -> None:
    source = make_table(COLUMNS, *ROWS, writes=HISTORY)
    stream = source.stream()
    clone = clone_of(source)
    clone.sql("DELETE FROM {t} WHERE id = 4")
    source.sql(ALL_ROWS, MERGE)
    assert len(source.check(stream)) > len(ROWS)
    again = clone_of(source, "clone of later")
    assert ids(again) == ids(source) != ids(clone)


# For each shape: the clause after the columns, the properties, and whether there are deletion
# vectors.
SHAPES = {
    "partitions": ("PARTITIONED BY (v)", "", False),
    "mapped by name": ("", "'delta.columnMapping.mode' = 'name'", False),
    "mapped by id": ("", "'delta.columnMapping.mode' = 'id'", True),
    "clustered": ("CLUSTER BY (id)", "", True),
    "statistics as columns": (
        "",
        "'delta.checkpointInterval' = '2', 'delta.checkpoint.writeStatsAsJson' = 'false',"
        " 'delta.checkpoint.writeStatsAsStruct' = 'true'",
        True,
    ),
    "v2 checkpoints": (
        "",
        "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'",
        True,
    ),
    "change data feed": ("", "'delta.enableChangeDataFeed' = 'true'", False),
}


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
def test_table_of_any_shape_is_cloned_with_its_row_ids(
    make_table: MakeTable, clone_of: CloneOf, shape: str
) -> None:
    clause, properties, vectors = SHAPES[shape]
    source = make_table(COLUMNS, *ROWS, vectors=vectors, clause=clause, properties=properties)
    source.sql("UPDATE {t} SET v = 'x y/ü' WHERE id = 6", "DELETE FROM {t} WHERE id = 2")
    if shape == "change data feed":
        source = source.read_by(Strategy.CHANGE_FILES)
    before = ids(source)

    clone = clone_of(source)

    assert ids(clone) == before
    details = [
        table.spark.sql(f"DESCRIBE DETAIL {table.name}").first() for table in (source, clone)
    ]
    for name in ("partitionColumns", "clusteringColumns", "numFiles", "sizeInBytes"):
        assert details[1][name] == details[0][name]  # type: ignore[index]
    assert all("numRecords" in json.loads(str(add["stats"])) for add in adds_of(clone))
    stream = clone.stream()
    clone.sql("DELETE FROM {t} WHERE id = 3", ALL_ROWS)
    assert len(clone.check(stream)) == 2 * len(ROWS) - 3
    again = at(stream, clone)
    clone.sql(ALL_ROWS)
    assert len(clone.check(again)) == 2 * len(ROWS) - 4


def adds_of(clone: SourceTable) -> list[dict[str, object]]:
    log = FILES.read(f"{clone.location}/_delta_log/{0:020d}.json")
    return [json.loads(line)["add"] for line in log.splitlines() if line.startswith(b'{"add"')]


@pytest.mark.thorough
def test_clone_with_a_renamed_column_and_in_commit_timestamps_is_exact(
    make_table: MakeTable, clone_of: CloneOf
) -> None:
    source = make_table(COLUMNS, *ROWS, properties="'delta.columnMapping.mode' = 'name'")
    source.sql(
        "ALTER TABLE {t} RENAME COLUMN v TO w",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "UPDATE {t} SET w = 'y' WHERE id = 1",
    )
    clone = clone_of(source)
    stream = clone.stream()
    clone.sql("ALTER TABLE {t} RENAME COLUMN w TO v", ALL_ROWS)
    assert len(clone.check(stream, old={"v": "w"})) == 2 * len(ROWS)
    assert len(clone.snapshot(0).collect()) == len(ROWS)


@pytest.mark.thorough
def test_clones_of_clones_keep_row_ids(make_table: MakeTable, clone_of: CloneOf) -> None:
    source = make_table(COLUMNS, *ROWS, writes=HISTORY)
    clone = clone_of(source)
    clone.sql("UPDATE {t} SET v = 'x' WHERE id = 5", "DELETE FROM {t} WHERE id = 6")
    before = ids(clone)
    second = clone_of(clone, "second")
    assert ids(second) == before
    check_steps(second, ALL_ROWS, ALL_ROWS)

    shallow = SourceTable(source.spark, f"{source.location} 3", source.scratch)
    shallow.sql(f"CREATE TABLE {{t}} SHALLOW CLONE {source.name}")
    third = clone_of(shallow, "third")
    assert ids(third) == ids(shallow) != ids(source)
    assert len(adds_of(third)) == len(adds_of(clone))


@pytest.mark.thorough
def test_clone_restored_to_version_0_holds_the_rows_of_its_source(
    make_table: MakeTable, clone_of: CloneOf
) -> None:
    source = make_table(COLUMNS, *ROWS, writes=HISTORY)
    clone = clone_of(source)
    first = clone.stream()
    clone.sql(ALL_ROWS, "DELETE FROM {t} WHERE id < 4", ALL_ROWS)
    changed = clone.stream()
    clone.sql("RESTORE TABLE {t} TO VERSION AS OF 0", "DELETE FROM {t} WHERE id = 5")
    assert len(clone.check(first)) == 1
    assert len(clone.check(changed)) > len(ROWS)


@pytest.mark.thorough
def test_clone_of_an_empty_table_is_exact(make_table: MakeTable, clone_of: CloneOf) -> None:
    clone = clone_of(make_table(COLUMNS))
    check_steps(clone, "INSERT INTO {t} VALUES (1, 'a')", ALL_ROWS)


@pytest.fixture
def vacuum(spark: SparkSession) -> Callable[[SourceTable], None]:
    def run(table: SourceTable) -> None:
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        try:
            table.sql("VACUUM {t} RETAIN 0 HOURS")
        finally:
            spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")

    return run


AT_ONCE = "'delta.deletedFileRetentionDuration' = 'interval 0 hours'"


@pytest.mark.thorough
def test_vacuum_of_a_clone_takes_nothing_from_its_source(
    make_table: MakeTable, clone_of: CloneOf, vacuum: Callable[[SourceTable], None]
) -> None:
    source = make_table(COLUMNS, *ROWS, properties=AT_ONCE, writes=HISTORY)
    clone = clone_of(source)
    clone.sql(
        ALL_ROWS, "OPTIMIZE {t}", "DELETE FROM {t} WHERE id = 1", "REORG TABLE {t} APPLY (PURGE)"
    )
    own, shared = files_below(clone), files_below(source)

    vacuum(clone)

    assert files_below(clone) < own
    assert files_below(source) == shared
    for table in (clone, source):
        stream = table.stream()
        # Time travel cannot read an earlier version here.
        table.sql("DELETE FROM {t} WHERE id = 5")
        (change,) = table.changes(stream)
        assert (change.action, change.values[0]) == ("DELETE", 5)


@pytest.mark.thorough
def test_vacuum_of_the_source_can_take_files_that_a_clone_needs(
    make_table: MakeTable, clone_of: CloneOf, vacuum: Callable[[SourceTable], None]
) -> None:
    source = make_table(COLUMNS, *ROWS, properties=AT_ONCE)
    clone = clone_of(source)
    source.sql(ALL_ROWS, "REORG TABLE {t} APPLY (PURGE)")

    vacuum(source)

    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        clone.sql("SELECT * FROM {t}")


@pytest.mark.thorough
def test_clone_is_readable_if_vectors_of_its_source_are_too_large(
    make_table: MakeTable, clone_of: CloneOf, vacuum: Callable[[SourceTable], None]
) -> None:
    source, count = make_table("id BIGINT, v INT", properties=AT_ONCE), 500_000
    empty = source.stream()
    add = delete_rows(source, add_rows(source, count), range(0, count, 3), inline=True)
    assert len(add["deletionVector"]["pathOrInlineDv"]) > 65_535
    with pytest.raises(Py4JError, match="UTFDataFormatException"):
        source.spark.table(source.name).selectExpr("sum(id)").collect()
    kept = [number for number in range(count) if number % 3]

    clone = clone_of(source)

    vacuum(clone)
    assert ids_of(clone.spark.table(clone.name)) == kept
    assert ids_of(source.read(empty).rows) == kept
    stream = clone.stream()
    clone.sql("DELETE FROM {t} WHERE id = 1")
    assert [change.values for change in clone.changes(stream)] == [(1, 0)]


def ids_of(rows: DataFrame) -> list[int]:
    return sorted(rows.select("id").toArrow()["id"].to_pylist())


def files_below(table: SourceTable) -> set[str]:
    return {str(path) for path in Path(table.location).rglob("*") if "_delta_log" not in path.parts}


@pytest.mark.thorough
def test_delta_duplicates_row_ids_if_a_clone_replaces_its_source(
    make_table: MakeTable, clone_of: CloneOf
) -> None:
    """Documented limit: both tables keep row ids in a column of the same name, which Delta does not
    expect.
    """
    source = make_table(COLUMNS, *ROWS[:4])
    clone = clone_of(source)
    clone.sql(
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ CAST(10 + id AS INT), 'n' FROM range(8)",
        "UPDATE {t} SET v = 'x' WHERE id = 14",
    )
    source.sql("INSERT INTO {t} SELECT CAST(100 + id AS INT), 'm' FROM range(3)")
    source.sql(
        "DELETE FROM {t}", f"CREATE OR REPLACE TABLE {{t}} SHALLOW CLONE delta.`{clone.location}`"
    )
    ids = "SELECT count(*), count(DISTINCT _metadata.row_id) FROM "
    assert source.spark.sql(ids + source.name).collect() == [(12, 11)]

    # The workaround gives the row id column another name.
    source.sql(
        "ALTER TABLE {t} DROP FEATURE rowTracking",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    )
    assert source.spark.sql(ids + source.name).collect() == [(12, 12)]
    stream = source.stream()
    source.sql(ALL_ROWS)
    assert len(source.check(stream)) == 24


def test_clone_in_the_catalog_has_a_name_and_a_location(lab: StreamLab) -> None:
    lab.make("src", COLUMNS, properties=TRACKED)
    lab.sql("INSERT INTO {src} VALUES (1, 'a')")
    odd = lab.path("it's \\ odd")
    lab.engine.clone_table(f"delta.`{lab.path('src')}`", "default.cloned", location=odd)
    try:
        assert [tuple(row) for row in lab.spark.table("cloned").collect()] == [(1, "a")]
        lab.engine.create_stream("s", on_table="cloned")
        lab.sql("DELETE FROM cloned", "INSERT INTO cloned VALUES (2, 'b')")
        assert len(lab.seen("s")) == 2
        assert Path(odd, "_delta_log").exists()
        history = lab.spark.sql("DESCRIBE HISTORY cloned").orderBy("version").first()
        assert history is not None
        assert (history["version"], history["operation"]) == (0, "CLONE")
        assert history["operationParameters"] == {"source": lab.name("src"), "sourceVersion": "1"}
        for taken in ("cloned", "default.CLONED"):
            with pytest.raises(TableExists, match="a table or a view has that name"):
                lab.engine.clone_table("cloned", taken, location=lab.path("other"))
        again = lab.engine.clone_table("cloned", lab.path("by name"))
        assert again == 2
    finally:
        lab.sql("DROP TABLE cloned")
    assert not Path(lab.path("other")).exists()


def test_clone_with_an_invalid_source_or_target_is_refused(lab: StreamLab) -> None:
    lab.make("src", COLUMNS, properties=TRACKED)
    lab.sql(
        "CREATE TABLE {plain} (id INT) USING delta TBLPROPERTIES"
        " ('delta.enableRowTracking' = 'false')"
    )
    Path(lab.path("full")).mkdir()
    Path(lab.path("full"), "a file").touch()
    src, fresh = lab.path("src"), lab.path("fresh")
    clone = lab.engine.clone_table
    for target in ("plain", "full", "full/a file"):
        with pytest.raises(TableExists, match="expected no folder"):
            clone(src, lab.path(target))
    for target in (src, f"file://{src}/below", str(lab.root)):
        with pytest.raises(InvalidRequest, match="cannot be in this folder"):
            clone(src, target)
    with pytest.raises(InvalidRequest, match=r"expected one path.*found the location None"):
        clone(src, "a_name")
    with pytest.raises(InvalidRequest, match="expected one path"):
        clone(src, fresh, location=fresh)
    with pytest.raises(InvalidRequest, match="expected one path"):
        clone(src, "a_name", location="another_name")
    with pytest.raises(TableNotFound, match="expected a schema nowhere"):
        clone(src, "nowhere.a_name", location=fresh)
    with pytest.raises(ChangeTrackingDisabled, match=r"row tracking is off.*SET TBLPROPERTIES"):
        clone(lab.path("plain"), fresh)
    with pytest.raises(TableNotFound):
        clone(lab.path("missing"), fresh)
    with pytest.raises(NotADeltaTable):
        clone(lab.path("full"), fresh)
    lab.sql("INSERT INTO {src} VALUES (1, 'a')", "INSERT INTO {src} VALUES (1, 'a')")
    Path(src, "_delta_log", f"{1:020d}.json").unlink()
    with pytest.raises(InvalidRequest, match="its log lacks version 1"):
        clone(src, fresh)
    assert not Path(fresh).exists()


def test_interrupted_clone_leaves_nothing_and_can_be_repeated(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.make("src", COLUMNS, properties=TRACKED)
    create = Files.create

    def cut_off(self: Files, uri: str, content: bytes) -> None:
        Path(uri).parent.mkdir(parents=True)
        Path(f"{uri}.draft").write_bytes(content[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(Files, "create", cut_off)
    with pytest.raises(KeyboardInterrupt):
        lab.engine.clone_table(lab.path("src"), lab.path("clone"))
    with pytest.raises(NotADeltaTable):
        lab.engine.create_stream("s", on_table=lab.path("clone"))
    monkeypatch.setattr(Files, "create", create)
    lab.engine.clone_table(lab.path("src"), lab.path("clone"))
    assert lab.rows("clone") == []


@pytest.mark.parametrize("answer", [False, OSError("connection reset")], ids=["no", "none"])
def test_clone_succeeds_if_the_store_loses_its_answer(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch, answer: bool | OSError
) -> None:
    lab.make("src", COLUMNS, properties=TRACKED)
    lab.sql("INSERT INTO {src} VALUES (1, 'a')")
    create = Files.create

    def lose(self: Files, uri: str, content: bytes) -> bool:
        create(self, uri, content)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(Files, "create", lose)
    lab.engine.clone_table(lab.path("src"), lab.path("clone"))
    assert lab.rows("clone") == lab.rows("src") != []


def test_second_clone_to_the_same_location_is_refused(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.make("src", COLUMNS, properties=TRACKED)
    monkeypatch.setattr(Cloning, "_check_free", lambda *_: None)
    lab.engine.clone_table(lab.path("src"), lab.path("clone"))
    with pytest.raises(TableExists, match=r"was created at .* just now"):
        lab.engine.clone_table(lab.path("src"), lab.path("clone"))


def test_clone_does_not_accept_offsets_or_times_of_its_source(lab: StreamLab) -> None:
    """Snowflake: the history of a cloned table begins at the clone."""
    lab.make("src", COLUMNS, properties=TRACKED)
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (1, 'a')")
    earlier = Timestamp(lab.committed_at("src", 0))
    lab.engine.clone_table(lab.path("src"), lab.path("clone"))

    with pytest.raises(InvalidRequest, match="not on"):
        lab.engine.create_stream("c", on_table=lab.path("clone"), at=OffsetOf("s"))
    with pytest.raises(InvalidRange, match="before version 0"):
        lab.engine.create_stream("c", on_table=lab.path("clone"), at=earlier)


@pytest.mark.thorough
def test_table_copied_with_its_log_keeps_the_row_ids_of_the_original(
    lab: StreamLab,
) -> None:
    """Snowflake: a source and its replica give replicated rows the same row id."""
    lab.make("src", COLUMNS, properties=TRACKED)
    lab.sql("INSERT INTO {src} VALUES (1, 'a'), (2, 'b')")
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("UPDATE {src} SET v = 'c' WHERE id = 1")
    shutil.copytree(lab.path("src"), lab.path("replica"))
    lab.engine.create_stream("r", on_table=lab.path("replica"), at=Version(1))

    assert lab.changes("r") == lab.changes("s")
