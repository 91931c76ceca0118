"""Several processes that write to one registry."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from registry_scenes import WRITERS, advance, advanced, create, stream, versions

from airflow_provider_cdc.engine.core.errors import (
    CdcError,
    StreamConflict,
)
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change, RegistrySnapshot
from airflow_provider_cdc.engine.storage.registry.registry_upkeep import Upkeep

_barrier: Any = None


def _join(barrier: Any) -> None:
    global _barrier  # noqa: PLW0603 - a spawned worker can be given it in no other way
    _barrier = barrier


@pytest.fixture(scope="module")
def processes() -> Iterator[Callable[..., list[str]]]:
    """Runs a function in four processes at once and returns the result of each."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        WRITERS, mp_context=context, initializer=_join, initargs=(context.Barrier(WRITERS),)
    ) as pool:

        def run(worker: Callable[..., object], *arguments: object) -> list[str]:
            futures = [
                pool.submit(_together, worker, number, *arguments) for number in range(WRITERS)
            ]
            return sorted(future.result(timeout=120) for future in futures)

        yield run


def _together(worker: Callable[..., object], number: int, state: str, *arguments: object) -> str:
    registry = Registry(state, upkeep=Upkeep(commits=4, vacuum_every=1))
    snapshot = registry.snapshot()
    _barrier.wait(60)
    try:
        worker(registry, snapshot, number, *arguments)
    except CdcError as error:
        return type(error).__name__
    return "landed"


def _advance_named(registry: Registry, snapshot: RegistrySnapshot, number: int, name: str) -> None:
    target = snapshot.get(name.format(number))
    registry.transact(snapshot, [advanced(target)], actor=f"process {number}")


def _create_named(registry: Registry, snapshot: RegistrySnapshot, number: int, name: str) -> None:
    change = Change(stream(name.format(number)), Transition.CREATED)
    registry.transact(snapshot, [change], actor=f"process {number}")


def _advance_often(registry: Registry, snapshot: RegistrySnapshot, number: int, times: int) -> None:
    """Move a stream of its own and a shared stream, ``times`` each."""
    left = times
    advance(registry, f"own {number}", times)
    while left:
        try:
            advance(registry, "shared")
            left -= 1
        except StreamConflict:
            continue


Processes = Callable[..., list[str]]


def test_one_of_several_processes_moves_a_stream_and_the_others_conflict(
    state: str, registry: Registry, processes: Processes
) -> None:
    created = create(registry, "flights")
    for moves in range(1, 4):
        results = processes(_advance_named, state, "flights")
        assert results == ["StreamConflict"] * (WRITERS - 1) + ["landed"]
        assert versions(registry, created.stream_id) == list(range(moves + 1))


def test_processes_that_move_different_streams_all_land(
    state: str, registry: Registry, processes: Processes
) -> None:
    for number in range(WRITERS):
        create(registry, f"stream {number}")
    assert processes(_advance_named, state, "stream {}") == ["landed"] * WRITERS
    assert [item.offset.version for item in registry.snapshot().streams()] == [1] * WRITERS


def test_only_one_of_several_processes_creates_a_name_in_a_new_folder(
    state: str, registry: Registry, processes: Processes
) -> None:
    for attempt in range(3):
        folder = f"{state}/{attempt}"
        results = processes(_create_named, folder, "flights")
        assert results == ["StreamExists"] * (WRITERS - 1) + ["landed"]
        assert len(Registry(folder).snapshot().streams()) == 1
        shutil.rmtree(folder)


def test_processes_that_create_different_names_in_a_new_folder_all_land(
    state: str, registry: Registry, processes: Processes
) -> None:
    assert processes(_create_named, state, "stream {}") == ["landed"] * WRITERS
    assert len(registry.snapshot().streams()) == WRITERS


def test_processes_that_write_during_concurrent_upkeep_lose_nothing(
    state: str, registry: Registry, processes: Processes
) -> None:
    times = 15
    shared = create(registry, "shared")
    own = [create(registry, f"own {number}") for number in range(WRITERS)]
    assert processes(_advance_often, state, times) == ["landed"] * WRITERS
    assert versions(registry, shared.stream_id) == list(range(times * WRITERS + 1))
    for item in own:
        assert versions(registry, item.stream_id) == list(range(times + 1))
    table = DeltaTable(f"{state}/registry")
    assert (table.transaction_version("upkeep") or 0) > 3
    assert pa.table(table.scan(columns=["archived"])).num_rows == 1 + times * WRITERS * 2 + WRITERS
