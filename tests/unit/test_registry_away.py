"""The registry as those see it who may reach it or not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streams import NOON, quiet_stream

from airflow_provider_cdc.engine.catalog import StreamCatalog
from airflow_provider_cdc.engine.core.errors import RegistryNotFound, StreamNotFound
from airflow_provider_cdc.engine.storage.registry import Registry
from airflow_provider_cdc.engine.storage.registry_snapshot import RegistrySnapshot


def test_missing_stream_is_told_from_a_missing_registry(tmp_path: Path) -> None:
    catalog = StreamCatalog(str(tmp_path / "state"))
    folder = re.escape(str(tmp_path / "state"))
    with pytest.raises(RegistryNotFound, match=f"stream s: .*registry of streams in .*{folder}"):
        catalog.describe("s")
    with pytest.raises(RegistryNotFound, match=f"{folder}: holds no registry"):
        catalog.undrop("s")
    assert catalog.show_if_begun() is None

    quiet_stream(tmp_path / "state", tmp_path / "t", "s", NOON)
    with pytest.raises(StreamNotFound) as caught:
        catalog.describe("x")
    assert not isinstance(caught.value, RegistryNotFound)
    assert catalog.show_if_begun() == [catalog.describe("s")]


def test_registry_that_comes_back_while_it_is_looked_for_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet_stream(tmp_path / "state", tmp_path / "t", "s", NOON)
    nowhere = Registry(str(tmp_path / "nowhere")).snapshot()
    snapshot, away = Registry.snapshot, [True]

    def read(registry: Registry) -> RegistrySnapshot:
        return nowhere if away and away.pop() else snapshot(registry)

    monkeypatch.setattr(Registry, "snapshot", read)
    catalog = StreamCatalog(str(tmp_path / "state"))
    # It is there from the second time on that it is read.
    assert catalog.show_if_begun() is None
    found = catalog.show_if_begun()
    assert [stream.name for stream in found or []] == ["s"]
