"""Different spellings of one location."""

from __future__ import annotations

import pytest

from airflow_provider_cdc.engine.core.delta.file_paths import (
    folder_key,
    location_key,
    partition_values,
)
from airflow_provider_cdc.engine.storage.files.uris import SCHEMES


@pytest.mark.parametrize(
    ("spellings", "key"),
    [
        (("/data/t", "/data/t/", "file:/data/t", "file:///data/t/", "/data//x/../t"), "/data/t"),
        (("/data/a:b", "file:/data/a:b"), "/data/a:b"),
        (("s3://lake/t", "s3a://lake/t/", "s3n://lake/t"), "s3://lake/t"),
        (("s3://lake//t",), "s3://lake//t"),
        (
            ("abfss://c@a.dfs.core.windows.net/t", "abfs://c@a.dfs.core.windows.net/t/"),
            "abfs://c@a.dfs.core.windows.net/t",
        ),
    ],
)
def test_spellings_of_one_location_have_one_key(spellings: tuple[str, ...], key: str) -> None:
    assert {location_key(spelling, SCHEMES) for spelling in spellings} == {key}


def test_folders_give_values_to_columns_that_delta_distinguishes() -> None:
    found = partition_values("Ma%C3%9F=1/mass=2/k=__HIVE_DEFAULT_PARTITION__/a.csv")
    assert found == {"maß": "1", "mass": "2", "k": None}


def test_locations_of_two_tables_have_two_keys() -> None:
    locations = ("/data/t", "/data/T", "/data/t/u", "s3://data/t", "gs://data/t", "s3://t/data")
    assert len({location_key(location, SCHEMES) for location in locations}) == len(locations)


def test_folder_logs_that_exist_are_found_under_the_same_key() -> None:
    assert folder_key("/data/in", None, SCHEMES) == "/data/in\n"
    assert folder_key("s3a://lake/in//a", "*.csv", SCHEMES) == "s3://lake/in//a\n*.csv"
