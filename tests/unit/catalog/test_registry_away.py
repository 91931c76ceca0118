"""A registry that callers may or may not be able to reach."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streams import NOON, quiet_stream

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.errors import RegistryNotFound, StreamNotFound
from airflow_provider_cdc.engine.core.retention.table_retention import Maintenance
from airflow_provider_cdc.engine.spark.streams.administration import StreamAdministration
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import RegistrySnapshot


def test_missing_stream_raises_another_error_than_a_missing_registry(tmp_path: Path) -> None:
    catalog = StreamCatalog(str(tmp_path / "state"))
    folder = re.escape(str(tmp_path / "state"))
    with pytest.raises(RegistryNotFound, match=f"stream s: .*registry of streams in .*{folder}"):
        catalog.get_stream("s")
    with pytest.raises(RegistryNotFound, match=f"{folder}: holds no registry"):
        catalog.undrop_stream("s")
    assert catalog.list_streams_if_begun() is None

    quiet_stream(tmp_path / "state", tmp_path / "t", "s", NOON)
    with pytest.raises(StreamNotFound) as caught:
        catalog.get_stream("x")
    assert not isinstance(caught.value, RegistryNotFound)
    assert catalog.list_streams_if_begun() == [catalog.get_stream("s")]


def test_registry_that_returns_during_a_check_is_not_reported_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet_stream(tmp_path / "state", tmp_path / "t", "s", NOON)
    nowhere = Registry(str(tmp_path / "nowhere")).snapshot()
    snapshot, away = Registry.snapshot, [True]

    def read(registry: Registry) -> RegistrySnapshot:
        return nowhere if away and away.pop() else snapshot(registry)

    monkeypatch.setattr(Registry, "snapshot", read)
    catalog = StreamCatalog(str(tmp_path / "state"))
    # Only the second read finds the registry.
    assert catalog.list_streams_if_begun() is None
    found = catalog.list_streams_if_begun()
    assert [stream.name for stream in found or []] == ["s"]


def administration(state: Path) -> StreamAdministration:
    """The part of the engine that lists streams; without a stream it uses no other part."""
    anything: Any = SimpleNamespace(run=lambda _: Maintenance((), ()))
    catalog = StreamCatalog(str(state), principal="somebody")
    return StreamAdministration(anything, catalog, *[anything] * 5)


def test_folder_without_a_registry_is_named_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = administration(tmp_path / "wrong")

    assert engine.describe_streams() == []
    engine.maintain_streams()

    for record in caplog.records:
        assert record.levelname == "WARNING"
        assert f"{tmp_path / 'wrong'}: holds no registry" in record.getMessage()
    assert len(caplog.records) == 2


def test_registry_without_streams_logs_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quiet_stream(tmp_path / "state", tmp_path / "t", "s", NOON)
    StreamCatalog(str(tmp_path / "state"), principal="somebody").drop_stream("s")
    engine = administration(tmp_path / "state")

    assert engine.describe_streams() == []
    engine.maintain_streams()
    assert not caplog.records
