"""Which files are read as plain Parquet: those that have the same rows without a Delta log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from pyroaring import BitMap64
from table_histories import data_file

from airflow_provider_cdc.engine.core.change_sets import plain_files
from airflow_provider_cdc.engine.core.change_sets.crafted_log import ListedFile, Side
from airflow_provider_cdc.engine.core.change_sets.plain_files import bitmap_words, reads_as_plain
from airflow_provider_cdc.engine.core.delta.deletion_vectors import Bitmap
from airflow_provider_cdc.engine.core.delta.log_actions import DeletionVector
from airflow_provider_cdc.engine.core.delta.table_schema import Layout

TRACKED = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
}
PROTOCOL = {"readerFeatures": ["deletionVectors"]}


def field(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def layout(*fields: dict[str, Any], partitions: tuple[str, ...] = (), **settings: str) -> Layout:
    schema = {"type": "struct", "fields": [field("id", "long"), *fields]}
    return Layout.of(
        {
            "schemaString": json.dumps(schema),
            "partitionColumns": partitions,
            "configuration": TRACKED | settings,
        }
    )


def listed(path: str = "file:///t/a.parquet", **fields: Any) -> ListedFile:
    tracked: dict[str, Any] = {"base_row_id": 0, "default_row_commit_version": 1}
    return ListedFile(Side.NEW, structs.replace(data_file(path, 1), **(tracked | fields)))


def vector_of_one_row() -> DeletionVector:
    bitmap = Bitmap.of(BitMap64([7]))
    assert bitmap is not None
    return bitmap.inline()


def test_tracked_files_of_a_simple_table_are_plain() -> None:
    nested = {"type": "array", "elementType": "decimal(10,2)", "containsNull": True}
    simple = layout(field("x", nested), field("p", "date", comment="a day"), partitions=("p",))

    assert reads_as_plain(simple, PROTOCOL, [listed(), listed("s3://b/t/p=1/b.c0.parquet")])


@pytest.mark.parametrize(
    "other",
    [
        field("v", "variant"),
        field("v", "interval day to second"),
        field("c", "string", __CHAR_VARCHAR_TYPE_STRING="char(3)"),
        field("w", "long", **{"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}),
        field("ID", "long"),
        field("s", {"type": "struct", "fields": [field("v", "variant")]}),
    ],
    ids=lambda item: item["name"],
)
def test_columns_that_delta_reads_in_its_own_way_are_not_plain(other: dict[str, Any]) -> None:
    assert not reads_as_plain(layout(other), PROTOCOL, [listed()])


@pytest.mark.parametrize("kind", ["timestamp", "double", "binary"])
def test_partition_values_that_have_several_spellings_are_not_plain(kind: str) -> None:
    partitioned = layout(field("p", kind), partitions=("p",))

    assert reads_as_plain(layout(field("p", kind)), PROTOCOL, [listed()])
    assert not reads_as_plain(partitioned, PROTOCOL, [listed()])


def test_mapped_columns_and_features_of_readers_are_not_plain() -> None:
    mapped = layout(**{"delta.columnMapping.mode": "name"})
    untracked = replace(layout(), configuration={})

    assert not reads_as_plain(mapped, PROTOCOL, [listed()])
    assert not reads_as_plain(untracked, PROTOCOL, [listed()])
    assert not reads_as_plain(layout(), {"readerFeatures": ["typeWidening"]}, [listed()])
    assert reads_as_plain(layout(), {"minReaderVersion": 1}, [listed()])


@pytest.mark.parametrize(
    "path",
    [
        "file:///t/a%20b.parquet",
        "file:///t/ä.parquet",
        "file:///t/{a}.parquet",
        "file:///t/_a.parquet",
        "file:///t/.a.parquet",
        "a.parquet",
    ],
)
def test_paths_that_could_be_read_as_something_else_are_not_plain(path: str) -> None:
    assert not reads_as_plain(layout(), PROTOCOL, [listed(path)])


def test_files_of_one_name_in_two_folders_are_plain() -> None:
    files = [listed("file:///t/p=1/a.parquet"), listed("file:///t/p=2/a.parquet")]

    assert reads_as_plain(layout(), PROTOCOL, files)


@pytest.mark.parametrize("missing", ["base_row_id", "default_row_commit_version"])
def test_files_from_before_row_tracking_are_not_plain(missing: str) -> None:
    assert not reads_as_plain(layout(), PROTOCOL, [listed(**{missing: None})])


def test_files_over_the_limits_are_not_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [listed(f"file:///t/{number}.parquet") for number in range(plain_files.MOST_FILES)]
    assert reads_as_plain(layout(), PROTOCOL, files)
    assert not reads_as_plain(layout(), PROTOCOL, [*files, listed("file:///t/more.parquet")])
    few = files[: plain_files.MOST_PRUNED_FILES]
    assert reads_as_plain(layout(), PROTOCOL, few, can_be_pruned=True)
    assert not reads_as_plain(layout(), PROTOCOL, files[: len(few) + 1], can_be_pruned=True)
    assert not reads_as_plain(layout(), PROTOCOL, [])
    large = listed(size_bytes=plain_files.MOST_BYTES + 1)
    assert not reads_as_plain(layout(), PROTOCOL, [large])

    monkeypatch.setattr(plain_files, "MOST_WORDS", 3)
    picked = replace(listed(), kept=BitMap64([1, 2, 127]))
    assert reads_as_plain(layout(), PROTOCOL, [picked])
    vector = vector_of_one_row()
    dropped = listed("file:///t/b.parquet", deletion_vector=vector, stats='{"numRecords": 63}')
    assert reads_as_plain(layout(), PROTOCOL, [picked, dropped])
    assert not reads_as_plain(layout(), PROTOCOL, [picked, dropped, listed(deletion_vector=vector)])
    longer = listed("file:///t/b.parquet", deletion_vector=vector, stats='{"numRecords": 64}')
    assert not reads_as_plain(layout(), PROTOCOL, [picked, longer])


def test_file_with_a_vector_and_no_row_count_is_not_plain() -> None:
    dropped = listed(deletion_vector=vector_of_one_row(), stats=None)

    assert not reads_as_plain(layout(), PROTOCOL, [dropped])


@given(st.sets(st.integers(min_value=0, max_value=5_000), max_size=200))
def test_bitmap_words_have_bits_set_at_the_positions(positions: set[int]) -> None:
    found = bitmap_words(BitMap64(positions))

    is_set = {at for at in range(len(found) * 64) if found[at >> 6] >> (at & 63) & 1}
    assert is_set == positions
    assert not found or found[-1]
