"""Changes from version 0 on, before which a table has no rows (Delta change data feed)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from oracle import plain_row
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from stream_lab import StreamLab
from streams import delta_row_id

from airflow_provider_cdc.engine import (
    ChangeTrackingDisabled,
    InvalidRange,
    OffsetOf,
    Strategy,
    StreamStale,
    Timestamp,
    Version,
)

TRACKED = "'delta.enableRowTracking' = 'true'"
FEED = "'delta.enableChangeDataFeed' = 'true'"
MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true'"
FROM_0 = Version(0)
# The rows that version 0 of a table writes, in one file.
ROWS = "SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd') AS (id, v)"
# Each statement makes one version.
LIFE = (
    "UPDATE {src} SET v = 'x' WHERE id <= 2",
    "DELETE FROM {src} WHERE id = 1",
    "INSERT INTO {src} VALUES (5, 'e'), (6, 'f')",
    "MERGE INTO {src} USING (SELECT explode(array(3, 5, 9)) AS key) ON id = key"
    " WHEN MATCHED AND key = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged'"
    " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (key, 'new')",
    "OPTIMIZE {src}",
    "RESTORE TABLE {src} TO VERSION AS OF 1",
    "UPDATE {src} SET v = concat(v, '!')",
    "TRUNCATE TABLE {src}",
    "INSERT OVERWRITE {src} VALUES (7, 'last')",
)
NO_VECTORS = "'delta.enableDeletionVectors' = 'false'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"

Rows = Counter[tuple[Any, ...]]


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    return StreamLab(spark, tmp_path)


def create(
    lab: StreamLab, *properties: str, rows: str = ROWS, table: str = "src", clause: str = ""
) -> None:
    """Create a table whose version 0 writes ``rows``."""
    settings = ", ".join((TRACKED, *properties))
    lab.sql(f"CREATE TABLE {{{table}}} USING delta {clause} TBLPROPERTIES ({settings}) AS {rows}")


def inserted(
    lab: StreamLab, table: str = "src", strategy: Strategy | None = None, **points: Any
) -> Rows:
    """The rows of a range, all of them inserts, each with its row id."""
    engine = lab.new_engine(strategy=strategy)
    rows = engine.changes(lab.path(table), **points)
    schema = StructType(rows.schema.fields[:-3])
    found = rows.collect()
    assert {(row[-3], row[-2]) for row in found} <= {("INSERT", False)}
    return Counter((delta_row_id(row[-1]), *plain_row(row, schema, schema)) for row in found)


def there(lab: StreamLab, version: int, table: str = "src") -> Rows:
    """The rows that Delta's own time travel reads, each with its row id."""
    rows = lab.spark.read.format("delta").option("versionAsOf", version).load(lab.path(table))
    row_id = rows.metadataColumn("_metadata").getField("row_id")
    names = [f"`{name}`" for name in rows.columns]
    schema = rows.schema
    return Counter(
        (row[0], *plain_row(row[1:], schema, schema))
        for row in rows.select(row_id, *names).collect()
    )


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", [Strategy.FILE_DIFFERENCE, Strategy.CHANGE_FILES])
@pytest.mark.parametrize("vectors", [VECTORS, NO_VECTORS], ids=["vectors", "no vectors"])
def test_changes_from_version_0_are_inserts_of_the_rows_at_the_end(
    lab: StreamLab, vectors: str, strategy: Strategy
) -> None:
    create(lab, vectors, FEED)
    lab.sql(*LIFE)
    newest = lab.version("src")
    assert newest == len(LIFE)

    for end in range(newest + 1):
        found = inserted(lab, strategy=strategy, before=FROM_0, end=Version(end))
        assert found == there(lab, end), end
    assert inserted(lab, strategy=strategy, before=FROM_0) == there(lab, newest)


@pytest.mark.thorough
def test_changes_from_version_0_of_partitions_are_the_rows_at_the_end(lab: StreamLab) -> None:
    create(lab, clause="PARTITIONED BY (v)")
    lab.sql(*LIFE[:4], "UPDATE {src} SET v = NULL WHERE id = 4")
    for end in range(lab.version("src") + 1):
        assert inserted(lab, before=FROM_0, end=Version(end)) == there(lab, end), end


def test_changes_from_version_0_read_change_files_only_by_that_strategy(lab: StreamLab) -> None:
    create(lab, FEED)
    lab.sql("UPDATE {src} SET v = 'x' WHERE id = 1")
    for strategy, reads in ((Strategy.CHANGE_FILES, True), (Strategy.FILE_DIFFERENCE, False)):
        rows = lab.new_engine(strategy=strategy).changes(lab.path("src"), before=FROM_0)
        assert any("_change_data" in file for file in rows.inputFiles()) is reads


@pytest.mark.thorough
def test_changes_from_a_time_before_the_first_commit_begin_with_version_0(lab: StreamLab) -> None:
    create(lab)
    lab.sql(*LIFE[:2])
    first, last = (lab.committed_at("src", version) for version in (0, 2))
    earlier = Timestamp(first - timedelta(days=1))

    for points in ({"before": earlier}, {"at": earlier}, {"before": Timestamp(first)}):
        assert inserted(lab, **points, end=Timestamp(last)) == there(lab, 2)
        assert inserted(lab, **points, end=Timestamp(first)) == there(lab, 0)
    assert inserted(lab, at=Timestamp(first), end=FROM_0) == Counter()


def test_changes_that_end_before_the_first_commit_are_empty(lab: StreamLab) -> None:
    create(lab)
    first = lab.committed_at("src", 0)
    start, end = (Timestamp(first - timedelta(days=days)) for days in (2, 1))

    for information in ("default", "append_only"):
        rows = lab.engine.changes(lab.path("src"), at=start, end=end, information=information)
        assert rows.columns[:2] == ["id", "v"]
        assert rows.collect() == []
    with pytest.raises(InvalidRange, match=r"is before version 0, at version 0 is at version"):
        lab.engine.changes(lab.path("src"), at=FROM_0, end=end)


def test_changes_before_a_stream_offset_at_version_0_include_version_0(lab: StreamLab) -> None:
    create(lab)
    lab.engine.create_stream("s", on_table=lab.path("src"))
    assert inserted(lab, before=OffsetOf("s")) == there(lab, 0)


@pytest.mark.thorough
def test_append_only_changes_from_version_0_are_all_rows_as_inserted(
    lab: StreamLab,
) -> None:
    create(lab, NO_VECTORS)
    lab.sql(*LIFE[:5])
    found = inserted(lab, before=FROM_0, information="append_only")
    at_first = ((1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f"), (9, "new"))
    assert Counter(row[1:] for row in found.elements()) == Counter(at_first)
    assert there(lab, 0) <= found


@pytest.mark.thorough
def test_changes_from_version_0_have_the_columns_of_the_end_version(lab: StreamLab) -> None:
    rows = "SELECT 1 AS id, CAST(1 AS INT) AS n, 'a' AS dropped, 'b' AS old, map('k', 1) AS m"
    create(lab, MAPPED, rows=rows)
    lab.sql(
        "ALTER TABLE {src} RENAME COLUMN old TO new",
        "ALTER TABLE {src} DROP COLUMN dropped",
        "ALTER TABLE {src} ADD COLUMN dropped DATE",
        "ALTER TABLE {src} ALTER COLUMN n TYPE BIGINT",
        "INSERT INTO {src} VALUES (2, 1L << 40, 'c', NULL, DATE '2026-01-01')",
        "UPDATE {src} SET n = n + 1",
    )
    for end in range(lab.version("src") + 1):
        assert inserted(lab, before=FROM_0, end=Version(end)) == there(lab, end), end

    rows = lab.engine.changes(lab.path("src"), before=FROM_0, information="append_only")
    assert rows.columns[:5] == ["id", "n", "new", "m", "dropped"]
    assert sorted((row.id, row.n, row.new, str(row.dropped)) for row in rows.collect()) == [
        (1, 1, "b", "None"),
        (2, 1 << 40, "c", "2026-01-01"),
    ]


@pytest.mark.thorough
def test_changes_from_version_0_read_no_values_of_a_former_column_type(lab: StreamLab) -> None:
    create(lab)
    other = lab.spark.sql("SELECT 1 AS id, 7 AS v")
    writer = other.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(lab.path("src"))
    assert inserted(lab, before=FROM_0) == there(lab, 1)


@pytest.mark.thorough
def test_changes_from_version_0_are_exact_if_column_mapping_came_later(lab: StreamLab) -> None:
    create(lab, FEED)
    lab.sql(
        f"ALTER TABLE {{src}} SET TBLPROPERTIES ({MAPPED})",
        "ALTER TABLE {src} RENAME COLUMN v TO w",
        "UPDATE {src} SET w = 'x' WHERE id = 1",
    )
    for strategy in (None, Strategy.CHANGE_FILES):
        for end in (0, lab.version("src")):
            found = inserted(lab, strategy=strategy, before=FROM_0, end=Version(end))
            assert found == there(lab, end), (strategy, end)


@pytest.mark.thorough
def test_changes_from_version_0_of_clones_are_all_their_rows(lab: StreamLab) -> None:
    create(lab, NO_VECTORS)
    # The UPDATE makes a file whose stored row ids are smaller than those that the file would give.
    lab.sql("UPDATE {src} SET v = 'x' WHERE id = 1")
    lab.engine.clone_table(lab.path("src"), lab.path("own"))
    lab.sql("CREATE TABLE {shallow} SHALLOW CLONE {src}")
    for clone in ("own", "shallow"):
        assert inserted(lab, clone, before=FROM_0) == there(lab, 0, clone) != Counter()
        found = inserted(lab, clone, before=FROM_0, information="append_only")
        assert found == there(lab, 0, clone)


@pytest.fixture
def tracked_by_default(spark: SparkSession) -> Iterator[None]:
    setting = "spark.databricks.delta.properties.defaults.enableRowTracking"
    spark.conf.set(setting, "true")
    yield
    spark.conf.unset(setting)


@pytest.mark.usefixtures("tracked_by_default")
def test_new_table_tracks_its_rows_by_a_session_default(lab: StreamLab) -> None:
    lab.sql(f"CREATE TABLE {{src}} USING delta AS {ROWS}")
    assert inserted(lab, before=FROM_0) == there(lab, 0) != Counter()


@pytest.mark.thorough
@pytest.mark.usefixtures("tracked_by_default")
def test_changes_from_version_0_of_a_converted_folder_are_its_rows(lab: StreamLab) -> None:
    lab.spark.sql(ROWS).write.parquet(lab.path("src"))
    lab.sql(f"CONVERT TO DELTA parquet.`{lab.path('src')}`")
    assert inserted(lab, before=FROM_0, end=FROM_0) == there(lab, 0) != Counter()


@pytest.mark.thorough
def test_changes_from_version_0_are_refused_if_tracking_was_off_then(
    lab: StreamLab,
) -> None:
    lab.sql(f"CREATE TABLE {{src}} USING delta AS {ROWS}")
    lab.engine.create_stream("s", on_table=lab.path("src"))
    earlier = Timestamp(lab.committed_at("src", 0) - timedelta(days=1))
    for point in (FROM_0, earlier):
        with pytest.raises(ChangeTrackingDisabled, match="row tracking was off then"):
            lab.engine.changes(lab.path("src"), before=point)


@pytest.mark.thorough
def test_changes_from_version_0_across_a_gap_in_tracking_are_refused(lab: StreamLab) -> None:
    create(lab)
    for is_on in ("false", "true"):
        lab.sql(f"ALTER TABLE {{src}} SET TBLPROPERTIES ('delta.enableRowTracking' = '{is_on}')")
    with pytest.raises(StreamStale, match="cannot determine what changed"):
        lab.engine.changes(lab.path("src"), before=FROM_0)


def test_changes_from_version_0_of_a_log_that_was_cleaned_up_are_refused(lab: StreamLab) -> None:
    create(lab, "'delta.checkpointInterval' = '2'")
    lab.sql(*LIFE[:2])
    earlier = Timestamp(lab.committed_at("src", 0) - timedelta(days=1))
    log = Path(lab.path("src"), "_delta_log")
    for file in log.glob(f"*{0:020d}.*"):
        file.unlink()
    for point, cause in ((FROM_0, "no longer holds version 0"), (earlier, "begins later")):
        with pytest.raises(InvalidRange, match=cause):
            lab.engine.changes(lab.path("src"), before=point)


def test_changes_from_before_the_table_was_replaced_are_refused(lab: StreamLab) -> None:
    create(lab)
    lab.sql(f"CREATE OR REPLACE TABLE {{src}} USING delta TBLPROPERTIES ({TRACKED}) AS {ROWS}")
    with pytest.raises(InvalidRange, match="was a different table then"):
        lab.engine.changes(lab.path("src"), before=FROM_0)


@pytest.mark.thorough
def test_stream_with_initial_rows_at_version_0_begins_with_them(lab: StreamLab) -> None:
    """Two consumptions return what a stream before version 0 would return."""
    create(lab)
    lab.sql(*LIFE[:2])
    with pytest.raises(InvalidRange, match="at=Version"):
        lab.engine.create_stream("s", on_table=lab.path("src"), before=FROM_0)
    lab.engine.create_stream("s", on_table=lab.path("src"), at=FROM_0, show_initial_rows=True)
    lab.make("log", "id INT, v STRING, action STRING")

    for _ in range(2):
        lab.consume("INSERT INTO {log} SELECT id, v, METADATA$ACTION FROM s")

    inserts, deletes = (
        Counter(row[:2] for row in lab.rows("log") if row[2] == action)
        for action in ("INSERT", "DELETE")
    )
    assert inserts - deletes == Counter(row[1:] for row in there(lab, 2))


@pytest.fixture
def view_lab(lab: StreamLab) -> Iterator[StreamLab]:
    """Two tables, the second one younger than the first, and a view ``v`` of their join."""
    create(lab, table="orders", rows="SELECT 1 AS id, 'o1' AS o")
    lab.sql("INSERT INTO {orders} VALUES (2, 'o2')")
    create(lab, table="names", rows="SELECT 1 AS id, 'n1' AS n")
    lab.sql("UPDATE {names} SET n = 'n1!'", "INSERT INTO {orders} VALUES (1, 'o3')")
    lab.spark.sql("CREATE SCHEMA IF NOT EXISTS beginning_lab")
    lab.spark.sql("USE beginning_lab")
    lab.sql("CREATE VIEW v AS SELECT n, o FROM {orders} JOIN {names} USING (id)")
    yield lab
    lab.spark.sql("USE default")
    lab.spark.sql("DROP SCHEMA beginning_lab CASCADE")


def view_changes(lab: StreamLab, **points: Any) -> list[tuple[Any, ...]]:
    rows = lab.engine.changes("v", **points).collect()
    return sorted(tuple(row[:-1]) for row in rows)


@pytest.mark.thorough
def test_view_changes_from_before_its_tables_exist_are_its_rows_at_the_end(
    view_lab: StreamLab,
) -> None:
    first = view_lab.committed_at("orders", 0)
    earlier = Timestamp(first - timedelta(days=1))
    # The result is the same if one of the tables exists already.
    for start in (earlier, Timestamp(view_lab.committed_at("orders", 1))):
        assert view_changes(view_lab, at=start) == [
            ("n1!", "o1", "INSERT", False),
            ("n1!", "o3", "INSERT", False),
        ]
    middle = Timestamp(view_lab.committed_at("names", 0))
    assert view_changes(view_lab, at=earlier, end=middle) == [("n1", "o1", "INSERT", False)]
    # The younger table does not exist at the end either.
    end = Timestamp(view_lab.committed_at("orders", 1))
    assert view_changes(view_lab, at=Timestamp(first), end=end) == []
    assert view_changes(view_lab, at=earlier, end=end) == []


def test_append_only_view_changes_from_before_its_tables_join_all_inserts(
    view_lab: StreamLab,
) -> None:
    earlier = Timestamp(view_lab.committed_at("orders", 0) - timedelta(days=1))
    assert view_changes(view_lab, at=earlier, information="append_only") == [
        ("n1", "o1", "INSERT", False),
        ("n1", "o3", "INSERT", False),
    ]


def test_view_changes_from_before_its_table_exists_use_current_columns(
    view_lab: StreamLab,
) -> None:
    lab = view_lab
    create(lab, MAPPED, table="things", rows="SELECT 1 AS id, 'a' AS x")
    earlier = Timestamp(lab.committed_at("things", 0) - timedelta(days=1))
    after = Timestamp(lab.committed_at("things", 0))
    lab.sql("ALTER TABLE {things} DROP COLUMN x", "ALTER TABLE {things} ADD COLUMN x INT")
    lab.sql("CREATE OR REPLACE VIEW v AS SELECT id, x FROM {things}")
    assert view_changes(lab, at=earlier) == [(1, None, "INSERT", False)]
    with pytest.raises(StreamStale, match="different column"):
        view_changes(lab, at=after)
