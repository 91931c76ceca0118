"""Checks compare an upsert table in its data columns when all changes are applied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import InvalidRequest, StreamConflict

ROWS = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('v', id) FROM range(2000)"


@pytest.fixture(params=["at_a_path", "with_a_name"])
def target(request: pytest.FixtureRequest, lab: StreamLab) -> Iterator[str]:
    """An upsert table that holds the rows of ``src``, of which 7 are deleted with a tombstone."""
    name = lab.path("kept") if request.param == "at_a_path" else "kept_verified"
    lab.engine.create_upsert_table(name, "id BIGINT, v STRING", "id")
    rows = lab.spark.sql(
        f"SELECT id, v, 'UPSERT' AS _CHANGE_TYPE, '1' AS _CHANGE_SEQUENCE_NUMBER"
        f" FROM {lab.name('src')} UNION ALL"
        " SELECT id, NULL, 'DELETE', '2' FROM range(2000, 2007)"
    )
    lab.engine.write_changes(name, rows)
    lab.engine.apply_upserts(name)
    yield name
    lab.engine.drop_upsert_table(name)


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    lab = StreamLab(spark, tmp_path)
    # With vectors, a change of few rows does not rewrite the whole table.
    properties = "'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true'"
    lab.make("src", "id BIGINT, v STRING", ROWS, properties=properties)
    lab.engine.create_stream("s", on_table=lab.path("src"))
    return lab


def base_of(lab: StreamLab, target: str) -> str:
    return lab.name("kept") if target == lab.path("kept") else f"{target}__base"


def move(lab: StreamLab, target: str, sequence: str) -> None:
    """Write the changes of the stream to the upsert table, and consume them."""
    rows = lab.engine.read_stream("s").where(
        "`METADATA$ACTION` = 'INSERT' OR NOT `METADATA$ISUPDATE`"
    )
    changes = rows.selectExpr(
        "id",
        "if(`METADATA$ACTION` = 'DELETE', NULL, v) AS v",
        "if(`METADATA$ACTION` = 'DELETE', 'DELETE', 'UPSERT') AS _CHANGE_TYPE",
        f"'{sequence}' AS _CHANGE_SEQUENCE_NUMBER",
    )
    lab.engine.write_changes(target, changes)
    lab.engine.advance_stream("s")


@pytest.mark.in_ci("with_a_name")
def test_upsert_table_is_verified_and_next_check_reads_what_changed(
    lab: StreamLab, target: str
) -> None:
    first = lab.engine.verify_target("s", target)
    lab.sql("UPDATE {src} SET v = 'x' WHERE id = 3", "DELETE FROM {src} WHERE id = 4")
    move(lab, target, "3")
    with pytest.raises(StreamConflict, match="wait to be applied"):
        lab.engine.verify_target("s", target)
    lab.engine.apply_upserts(target)
    second = lab.engine.verify_target("s", target, "id")
    third = lab.engine.verify_target("s", target)

    assert (first.is_equal, first.is_incremental, first.target) == (True, False, target)
    assert (second.is_equal, second.is_incremental) == (True, True)
    assert second.verified_through == lab.version("src")
    assert third.bytes_read == 0


@pytest.mark.in_ci("with_a_name")
def test_differences_of_an_upsert_table_are_named(lab: StreamLab, target: str) -> None:
    lab.engine.verify_target("s", target)
    base = base_of(lab, target)
    lab.spark.sql(f"UPDATE {base} SET v = 'corrupt' WHERE id = 7").collect()
    lab.spark.sql(f"DELETE FROM {base} WHERE id = 8").collect()
    lab.spark.sql(f"UPDATE {base} SET _cdc.deleted_at = NULL WHERE id = 2001").collect()
    lab.spark.sql(f"UPDATE {base} SET _cdc.deleted_at = current_timestamp() WHERE id = 9").collect()
    check = lab.engine.verify_target("s", target)

    assert not check.is_equal
    assert {json.loads(each.key)["id"]: each.kind.value for each in check.differences} == {
        7: "different",
        8: "missing",
        9: "missing",
        2001: "unexpected",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [({"heal": True}, "write_changes"), ({"key": "v"}, "leave out the key")],
    ids=["heal", "another_key"],
)
@pytest.mark.parametrize("target", ["at_a_path"], indirect=True)
def test_upsert_table_is_not_healed_and_has_one_key(
    lab: StreamLab, target: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        lab.engine.verify_target("s", target, **options)  # type: ignore[arg-type]
