"""Which targets get a warning that their log can be overwritten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_cdc.engine import log_store
from airflow_provider_cdc.engine.spark.tables import log_stores


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stores, "_warned", set())


def session(**conf: str) -> Any:
    settings = {name.replace("_", "."): value for name, value in conf.items()}
    return SimpleNamespace(conf=settings)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_single_driver_log_store_is_reported_once(
    scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    for table in ("a", "b"):
        log_stores.warn_of_one_driver(session(), f"{scheme}://bucket/{table}")

    (record,) = caplog.records
    assert f"{scheme}://bucket/a" in record.getMessage()
    assert "or let only one driver at a time write to it" in record.getMessage()
    assert f"spark.delta.logStore.{scheme}.impl={log_store.CLASS}" in record.getMessage()


@pytest.mark.parametrize(
    ("location", "conf"),
    [
        ("/data/t", {}),
        ("file:/data/t", {}),
        ("abfss://c@a.dfs.core.windows.net/t", {}),
        ("gs://bucket/t", {}),
        ("s3a://bucket/t", log_store.SETTINGS),
        ("s3a://bucket/t", {"spark_delta_logStore_s3a_impl": "a.Store"}),
        ("s3a://bucket/t", {"spark_delta_logStore_class": "a.Store"}),
    ],
)
def test_multiple_driver_log_store_is_not_reported(
    location: str, conf: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    log_stores.warn_of_one_driver(session(**conf), location)

    assert not caplog.records
