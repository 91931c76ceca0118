"""Locations that this process cannot open."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_cdc.engine.core.errors import InvalidRequest, UnsupportedEnvironment
from airflow_provider_cdc.engine.storage.files.schemes import check_scheme, read_allowed
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

NOBODY = 65534


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Make a ``folder`` that this process may not read. Root may read all, and becomes nobody."""
    is_root = os.geteuid() == 0
    folder.mkdir()
    folder.parent.chmod(0o755)
    folder.chmod(0o700 if is_root else 0)
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("dbfs:/mnt/t", "cannot be opened outside Databricks"),
        ("dbfs:///mnt/t", "cannot be opened outside Databricks"),
        ("hdfs:/t", "expected two slashes and a bucket or host after hdfs:"),
        ("s3a:/bucket/t", "expected two slashes and a bucket or host after s3:"),
        ("nosuchstore://a/t", "no store is known by the scheme nosuchstore"),
    ],
)
def test_location_that_no_library_opens_is_refused(
    uri: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRequest, match=rf"{problem}.*Fix: "):
        SourceLog(Files()).newest_offset(uri)
    with pytest.raises(InvalidRequest, match=problem):
        Files().write(f"{uri}/state", b"")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("uri", ["wasbs://c@a.blob.core.windows.net/t", "abfss://c@a/t"])
def test_location_without_its_library_is_refused(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # An entry of None makes the import fail as if the package were not installed.
    monkeypatch.setitem(sys.modules, "adlfs", None)
    with pytest.raises(UnsupportedEnvironment, match=r"cannot be opened here\..*adlfs"):
        Files().read(f"{uri}/_delta_log/0.json")


@pytest.mark.parametrize("uri", ["/a:b/c", "memory:/a", "memory://a", "a path", "s3://bucket/a"])
def test_location_that_can_be_opened_passes(uri: str) -> None:
    check_scheme(uri)


def test_table_that_its_store_keeps_from_this_process_is_refused() -> None:
    # The folders above tmp_path would keep nobody from reaching it.
    with (
        tempfile.TemporaryDirectory() as root,
        without_rights(Path(root, "_delta_log")),
        pytest.raises(InvalidRequest, match=r"its store refuses this process.*Fix: let the ident"),
    ):
        SourceLog(Files()).newest_offset(root)


def test_permission_that_is_not_about_reading_is_not_changed() -> None:
    with pytest.raises(FileNotFoundError), read_allowed("t"):
        raise FileNotFoundError("t")
