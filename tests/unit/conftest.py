"""A registry in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from registry_scenes import NEVER
from streams import NOON

from airflow_provider_cdc.engine.storage.registry.registry import Registry


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "a state, 100% ünïcode")


@pytest.fixture
def registry(state: str) -> Registry:
    return Registry(state, clock=lambda: NOON, upkeep=NEVER)
