"""Commits of the registry whose answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from registry_scenes import HARSH, NEVER, advance, create, versions

from airflow_provider_cdc.engine.core.errors import (
    OutcomeUnknown,
    StreamConflict,
)
from airflow_provider_cdc.engine.storage.registry.registry import Registry


class Flaky(Registry):
    """A registry on an unreliable store: ``fault`` wraps each real write."""

    fault: Callable[[Callable[[], None]], None] | None = None

    def _append(self, table: DeltaTable, *arguments: Any) -> None:
        version, write = table.version(), super()._append
        if self.fault is None:
            write(table, *arguments)
        else:
            self.fault(lambda: write(DeltaTable(table.table_uri, version=version), *arguments))


def lose_answer(write: Callable[[], None]) -> None:
    write()
    raise OSError("connection reset")


def repeat_request(write: Callable[[], None]) -> None:
    write()
    write()


def never_arrive(write: Callable[[], None]) -> None:
    raise OSError("connection refused")


@pytest.mark.parametrize("fault", [lose_answer, repeat_request])
def test_commit_whose_answer_is_lost_is_recognised_as_landed(
    state: str, fault: Callable[[Callable[[], None]], None]
) -> None:
    registry = Flaky(state, upkeep=NEVER)
    created = create(registry, "flights")
    registry.fault = fault
    advance(registry, "flights")
    registry.fault = None
    advance(registry, "flights")
    assert versions(registry, created.stream_id) == [0, 1, 2]


def test_landed_commit_is_recognised_when_the_stream_moved_on_since(state: str) -> None:
    registry, other = Flaky(state, upkeep=NEVER), Registry(state, upkeep=HARSH)
    created = create(registry, "flights")

    def overtaken(write: Callable[[], None]) -> None:
        write()
        advance(other, "flights", times=5)
        raise OSError("connection reset")

    registry.fault = overtaken
    advance(registry, "flights")
    assert versions(registry, created.stream_id) == list(range(7))


def test_commit_that_never_arrived_is_outcome_unknown_and_may_be_repeated(state: str) -> None:
    registry = Flaky(state, upkeep=NEVER)
    created = create(registry, "flights")
    registry.fault = never_arrive
    with pytest.raises(OutcomeUnknown, match="connection refused"):
        advance(registry, "flights")
    registry.fault = None
    advance(registry, "flights")
    assert versions(registry, created.stream_id) == [0, 1]


def test_commit_that_never_arrived_while_the_stream_moved_is_a_conflict(state: str) -> None:
    registry, other = Flaky(state, upkeep=NEVER), Registry(state, upkeep=NEVER)
    create(registry, "flights")

    def overtaken(write: Callable[[], None]) -> None:
        advance(other, "flights")
        raise OSError("connection refused")

    registry.fault = overtaken
    with pytest.raises(StreamConflict, match="'advanced', by advancer"):
        advance(registry, "flights")


def test_commit_followed_by_an_unreadable_registry_is_outcome_unknown(state: str) -> None:
    registry = Flaky(state, upkeep=NEVER)
    create(registry, "flights")

    def lose_everything(write: Callable[[], None]) -> None:
        write()
        for file in Path(state, "registry").rglob("*.zstd.parquet"):
            file.unlink()
        raise OSError("connection reset")

    registry.fault = lose_everything
    with pytest.raises(OutcomeUnknown, match="connection reset"):
        advance(registry, "flights")
