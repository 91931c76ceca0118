"""Keys of the files of changes, read without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_cdc.engine.core.delta.log_actions import DataFile
from airflow_provider_cdc.engine.storage.delta import key_values
from airflow_provider_cdc.engine.storage.delta.key_values import whole_numbers
from airflow_provider_cdc.engine.storage.files.stores import Files

NAMES = ("part 1.parquet", "part-2.parquet")


def written(folder: Path, *columns: pa.Array, name: str = "id") -> list[DataFile]:
    files = []
    for file, values in zip(NAMES, columns, strict=False):
        pq.write_table(pa.table({name: values}), folder / file)
        files.append(DataFile(file.replace(" ", "%20"), size_bytes=(folder / file).stat().st_size))
    return files


def test_keys_of_two_files_are_distinct_and_ascending(tmp_path: Path) -> None:
    files = written(tmp_path, pa.array([5, 3, None, 5]), pa.array([4, 3, -1], pa.int32()))

    assert whole_numbers(str(tmp_path), files, "id", Files()) == [-1, 3, 4, 5]


@pytest.mark.parametrize("values", [pa.array(["1", "2"]), pa.array([1.0, 2.0])])
def test_keys_that_are_no_whole_numbers_are_left_to_spark(tmp_path: Path, values: Any) -> None:
    assert whole_numbers(str(tmp_path), written(tmp_path, values), "id", Files()) is None


def test_keys_under_another_name_are_left_to_spark(tmp_path: Path) -> None:
    files = written(tmp_path, pa.array([1]), name="col-4f5e")

    assert whole_numbers(str(tmp_path), files, "id", Files()) is None


def test_keys_of_a_file_that_is_no_parquet_are_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"PAR1 but nothing else")

    assert whole_numbers(str(tmp_path), [DataFile("broken")], "id", Files()) is None
    assert whole_numbers(str(tmp_path), [DataFile("missing")], "id", Files()) is None


def test_keys_of_large_files_are_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written(tmp_path, pa.array([1]), pa.array([2]))
    monkeypatch.setattr(key_values, "_MOST_BYTES", files[0].size_bytes)

    assert whole_numbers(str(tmp_path), files[:1], "id", Files()) == [1]
    assert whole_numbers(str(tmp_path), files, "id", Files()) is None
