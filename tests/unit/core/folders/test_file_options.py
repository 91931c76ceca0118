"""Options of Spark's readers: which of them a stream on files takes, and why others are refused."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.folders.file_options import (
    file_options,
    has_headers,
    whole_rows,
)
from airflow_provider_cdc.engine.core.model.sources import FileFormat

CSV, JSON = FileFormat.CSV, FileFormat.JSON


@pytest.mark.parametrize(
    ("file_format", "options", "message"),
    [
        (CSV, {"mode": "DropMalformed"}, "would leave.*rows out.*_corrupt_record STRING.*FAILFAST"),
        (JSON, {"MODE": "dropmalformed"}, "would count as consumed"),
        (JSON, {"mode": "FAIL_FAST"}, "'FAIL_FAST' is not a mode.*PERMISSIVE or FAILFAST"),
        (CSV, {"heder": True}, r"heder is not an option of csv.*did you mean header\."),
        (FileFormat.PARQUET, {"header": True}, "header is not an option of parquet.*mergeSchema"),
        (CSV, {"maxFilesPerTrigger": 5}, "for Spark's own streams.*max_commits"),
        (FileFormat.AVRO, {"ignoreExtension": False}, "would leave files"),
        (CSV, {"ignoreInvalidPartitionPaths": True}, "would leave files"),
        (CSV, {"mapreduce.input.linerecordreader.line.maxlength": 9}, "would leave files"),
        (CSV, {"modifiedBefore": "2026-01-01"}, "pathGlobFilter selects files"),
        (CSV, {"basePath": "/in"}, "would name other files"),
        (CSV, {"encoding": "UTF-16"}, "inside characters.*multiLine"),
    ],
)
def test_option_that_hides_rows_or_does_nothing_is_refused(
    file_format: FileFormat, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        file_options("stream s", file_format, options)


@pytest.mark.parametrize(
    ("file_format", "options"),
    [
        (CSV, {"HEADER": "true", "Mode": "failfast", "columnNameOfCorruptRecord": "bad"}),
        (CSV, {"encoding": "utf-16le", "multiLine": True}),
        (CSV, {"charset": "utf-16le", "lineSep": "\n"}),
        (JSON, {"mode": "PERMISSIVE", "allowComments": True, "samplingRatio": 0.5}),
        (FileFormat.ORC, {"mergeSchema": True, "recursiveFileLookup": True}),
        (FileFormat.PARQUET, {"fs.s3a.endpoint": "x"}),
    ],
)
def test_option_of_a_reader_is_taken_in_any_case(
    file_format: FileFormat, options: dict[str, Any]
) -> None:
    assert set(file_options("stream s", file_format, options).reader) == set(options)


def test_glob_is_for_the_listing_and_not_for_the_reader() -> None:
    found = file_options("stream s", CSV, {"PathGlobFilter": "*.csv"})
    assert (found.reader, found.name_glob) == ({}, "*.csv")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"header": "true"}, True),
        ({"Header": "TRUE"}, True),
        ({}, False),
        ({"header": "true", "enforceSchema": "true"}, False),
        ({"header": "true", "enforceSchema": "false"}, False),
        ({"header": "true", "singleVariantColumn": "v"}, False),
    ],
)
def test_headers_count_unless_an_option_overrides_them(
    options: dict[str, str], expected: bool
) -> None:
    assert has_headers(CSV, options) is expected
    assert not has_headers(JSON, options)


def test_readers_skip_neither_long_lines_nor_files() -> None:
    for file_format in (CSV, JSON):
        assert "mapreduce.input.linerecordreader.line.maxlength" in whole_rows(file_format)
    assert whole_rows(FileFormat.AVRO) == {"ignoreExtension": "true"}
