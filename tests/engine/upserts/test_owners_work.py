"""Changes that the owner of an upsert table makes to its base by hand, and their effects."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from upsert_lab import UpsertLab

from airflow_provider_cdc.engine import InvalidRequest

UNCHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"


def names_in_files(lab: UpsertLab) -> set[str]:
    """The values in the data files of the base, including values that readers do not see."""
    found: set[str] = set()
    for file in Path(lab.table()).glob("*.parquet"):
        found |= set(pq.read_table(file).column("Name").to_pylist()) - {None}
    return found


@pytest.mark.thorough
def test_reorg_and_vacuum_remove_erased_values_from_the_files(
    lab: UpsertLab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write(*((number, f"v{number}", 1, "UPSERT", "1") for number in range(3)))
    lab.apply()
    lab.write((0, None, None, "DELETE", "2"), (1, "new", 1, "UPSERT", "2"))
    lab.apply()
    expected = [(1, "new", 1), (2, "v2", 1)]
    assert lab.applied() == expected
    assert {"v0", "v1"} <= names_in_files(lab)

    spark.conf.set(UNCHECKED, "false")
    try:
        for text in ("REORG TABLE {t} APPLY (PURGE)", "VACUUM {t} RETAIN 0 HOURS"):
            lab.sql(text.format(t=f"delta.`{lab.table()}`"))
    finally:
        spark.conf.unset(UNCHECKED)

    assert names_in_files(lab) == {"v2", "new"}
    assert lab.applied() == expected
    # VACUUM does not remove the folders beside the data files.
    lab.write((2, "newer", 2, "UPSERT", "2"))
    lab.apply()
    lab.sql(f"OPTIMIZE delta.`{lab.table()}`")
    lab.write((3, "c", 3, "UPSERT", "2"))
    lab.apply()
    assert lab.applied() == [(1, "new", 1), (2, "newer", 2), (3, "c", 3)]


@pytest.mark.thorough
def test_column_added_only_to_the_base_blocks_the_table_until_add_columns(
    lab: UpsertLab,
) -> None:
    lab.write((1, "a", 1, "UPSERT", "1"))
    lab.apply()
    lab.write((2, "b", 2, "UPSERT", "1"))
    add = "ALTER TABLE delta.`{t}` ADD COLUMNS (Note STRING)"
    lab.sql(add.format(t=lab.table()))

    for call in (lambda: lab.write((3, "c", 3, "UPSERT", "1")), lab.apply, lab.read):
        with pytest.raises(InvalidRequest, match="do not have the same Note"):
            call()
    assert lab.applied() == [(1, "a", 1, None)]

    lab.engine.add_columns(lab.table(), "Note STRING")
    lab.write((3, "c", 3, "UPSERT", "1"))
    expected = [(1, "a", 1, None), (2, "b", 2, None), (3, "c", 3, None)]
    assert lab.read() == expected
    lab.apply()
    assert lab.applied() == expected
