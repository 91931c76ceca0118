"""Columns whose names Delta distinguishes stay two columns in every read and write."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import InvalidRequest, Version

TRACKED = "'delta.enableRowTracking' = 'true'"
COLUMNS = "id INT, `maß` STRING, mass INT"
LONG_S = "\N{LATIN SMALL LETTER LONG S}"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    lab = StreamLab(spark, tmp_path)
    lab.make("src", COLUMNS, properties=TRACKED)
    lab.sql("INSERT INTO {src} VALUES (1, 'ell', 10), (2, 'zoll', 20)")
    return lab


@pytest.mark.thorough
def test_tables_keep_similar_columns_apart_in_streams_clones_and_recovery(lab: StreamLab) -> None:
    engine = lab.engine
    engine.create_stream("s", on_table=lab.path("src"))
    engine.create_stream("a", on_table=lab.path("src"), mode="append_only")
    # The columns have the same types in another order: exchanged values would still be stored.
    lab.make("copy", "id INT, Mass STRING, `MAß` STRING")
    lab.sql("INSERT INTO {copy} VALUES (1, '10', 'ell'), (2, '20', 'zoll')")
    lab.sql("UPDATE {src} SET mass = 11 WHERE id = 1", "INSERT INTO {src} VALUES (3, 'fuß', 30)")

    assert lab.seen("a") == [(3, "fuß", 30, "INSERT", False)]
    assert lab.seen("s") == [
        (1, "ell", 10, "DELETE", True),
        (1, "ell", 11, "INSERT", True),
        (3, "fuß", 30, "INSERT", False),
    ]
    changes = engine.changes(lab.path("src"), at=Version(1)).select("maß", "mass").collect()
    assert sorted(map(tuple, changes)) == [("ell", 10), ("ell", 11), ("fuß", 30)]
    engine.clone_table(lab.path("src"), lab.path("clone"))
    assert lab.rows("clone") == lab.rows("src")

    outcome = engine.recover_stream("s", lab.path("copy"), "id", consumer="c")

    assert outcome.streams[0].rows == {"inserted": 1, "updated": 1, "deleted": 0}
    assert lab.rows("copy") == [(1, "11", "ell"), (2, "20", "zoll"), (3, "30", "fuß")]
    again = engine.recover_stream("s", lab.path("copy"), "id", consumer="c")
    assert set(again.streams[0].rows.values()) == {0}


@pytest.mark.thorough
def test_views_and_folders_keep_similar_columns_apart(lab: StreamLab) -> None:
    lab.spark.sql("CREATE SCHEMA IF NOT EXISTS names_lab")
    view = "names_lab.measures"
    lab.sql(f"CREATE VIEW {view} AS SELECT s.mass, s.`maß` FROM {{src}} AS s WHERE mass > 0")
    lab.engine.create_stream("v", on_view=view)
    lab.sql("INSERT INTO {src} VALUES (3, 'fuß', 30)")
    assert lab.seen("v") == [(30, "fuß", "INSERT", False)]
    lab.spark.sql("DROP SCHEMA names_lab CASCADE")

    folder = lab.root / "in"
    for place, row in {"maß=ell/mass=1": "7", "mass=2": "8,zoll", "MAß=fuß": "9,3"}.items():
        (folder / place).mkdir(parents=True)
        (folder / place / "a.csv").write_text(row, encoding="utf-8")
    lab.engine.create_stream(
        "f",
        on_files=str(folder),
        file_format="csv",
        file_schema=COLUMNS,
        mode="insert_only",
        at=Version(0),
    )
    assert [row[:3] for row in lab.seen("f")] == [(7, "ell", 1), (8, "zoll", 2), (9, "fuß", 3)]


@pytest.mark.thorough
def test_upsert_tables_keep_similar_columns_apart(lab: StreamLab) -> None:
    lab.engine.create_upsert_table(lab.path("t"), COLUMNS, "id", partial_changes=True)
    columns = f"{COLUMNS}, _CHANGE_TYPE STRING, _CHANGE_UNCHANGED ARRAY<STRING>"
    for row in ((1, "ell", 10, "UPSERT", None), (1, "fuß", None, "UPSERT", ["MASS"])):
        lab.engine.write_changes(lab.path("t"), lab.spark.createDataFrame([row], columns))
        lab.engine.apply_upserts(lab.path("t"))

    assert [tuple(row) for row in lab.engine.read_upsert_table(lab.path("t")).collect()] == [
        (1, "fuß", 10)
    ]
    lab.engine.add_columns(lab.path("t"), "p STRUCT<street: STRING, city: STRING>")
    turned = "SELECT 1 AS id, 'UPSERT' AS _CHANGE_TYPE, struct('c' AS city, 's' AS street) AS p"
    with pytest.raises(InvalidRequest, match="hold p as struct<`city`"):
        lab.engine.write_changes(lab.path("t"), lab.spark.sql(turned))


def test_columns_that_spark_sometimes_confuses_are_refused_by_name(lab: StreamLab) -> None:
    lab.make("near", f"id INT, s STRING, `{LONG_S}` STRING", properties=TRACKED)
    with pytest.raises(InvalidRequest, match=f"treats s and {LONG_S} as the same field"):
        lab.engine.create_stream("n", on_table=lab.path("near"))
    lab.engine.create_stream("s", on_table=lab.path("src"))
    with pytest.raises(InvalidRequest, match=f"columns s and {LONG_S} as the same column"):
        lab.engine.recover_stream("s", lab.path("near"), "id", consumer="c")
