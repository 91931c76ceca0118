"""What Spark's errors show of the file that it was reading."""

from __future__ import annotations

import pytest
from streams import new_stream

from airflow_provider_cdc.engine.core.errors import FileUnreadable
from airflow_provider_cdc.engine.core.folders.file_faults import unreadable_file
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.model.stream import Stream

READING = "Encountered error while reading file"


def on_folder(uri: str) -> Stream:
    return new_stream("s", source=Source(uri, "/state/log", "id"))


@pytest.mark.parametrize(
    ("uri", "messages", "path", "cause"),
    [
        (
            "/in ü",
            f"Job aborted\n[FAILED_READ_FILE.NO_HINT] {READING} file:///in%20ü/a/b%5B1%5D.csv. "
            " SQLSTATE: KD001\n[X] Malformed\n[Y] Malformed CSV record: abc SQLSTATE: KD000",
            "a/b[1].csv",
            "[X] Malformed; [Y] Malformed CSV record: abc",
        ),
        (
            "/in",
            f"[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] {READING} file:/in/a. Data type"
            " mismatches when reading Parquet column [id]. SQLSTATE: KD001\ncolumn: [id]",
            "a",
            "Data type mismatches when reading Parquet column [id]; column: [id]",
        ),
        (
            "s3a://bucket/in",
            f"[FAILED_READ_FILE.NO_HINT] {READING} s3a://bucket/in/a.b.parquet.  SQLSTATE: KD001",
            "a.b.parquet",
            "Spark gives no details",
        ),
        (
            "/in",
            f"[FAILED_READ_FILE.FILE_NOT_EXIST] {READING} file:///in/a. File does not exist."
            " SQLSTATE: KD001\n/in/a (Permission denied)",
            "a",
            "Permission denied",
        ),
    ],
)
def test_error_names_the_file_its_cause_and_three_fixes(
    uri: str, messages: str, path: str, cause: str
) -> None:
    found = unreadable_file(on_folder(uri), messages)
    assert isinstance(found, FileUnreadable)
    assert f"stream s: cannot read {path} in {uri}; nothing of it was consumed" in str(found)
    assert found.cause in (cause, f"/in/a ({cause})")
    assert f"correct {path}, remove it, or hide it by a name that begins with a dot" in found.fix
    assert 'at=OffsetOf("s")' in found.fix


@pytest.mark.parametrize(
    "messages", ["out of memory", f"{READING} file:///other/a. SQLSTATE: KD001", ""]
)
def test_error_that_names_no_file_of_the_folder_is_not_translated(messages: str) -> None:
    assert unreadable_file(on_folder("/in"), messages) is None
