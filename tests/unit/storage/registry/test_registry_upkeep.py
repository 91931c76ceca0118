"""The upkeep that keeps the registry small."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from registry_scenes import HARSH, NEVER, advance, create, drop, versions
from streams import NOON

from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_upkeep import Upkeep


def test_upkeep_keeps_streams_and_history_and_few_files(state: str) -> None:
    registry = Registry(state, clock=lambda: NOON, upkeep=NEVER)
    kept, removed = create(registry, "kept"), create(registry, "removed")
    advance(registry, "kept", times=12)
    drop(registry, "removed")
    before = (registry.snapshot().streams(), registry.history(kept.stream_id))
    dropped = registry.history(removed.stream_id)
    for _ in range(3):
        Registry(state, upkeep=HARSH).tidy()
        assert (registry.snapshot().streams(), registry.history(kept.stream_id)) == before
        assert registry.history(removed.stream_id) == dropped
    table = DeltaTable(f"{state}/registry")
    assert len(table.file_uris()) == 2
    assert pa.table(table.scan(predicate="archived = false")).num_rows == 1
    assert pa.table(table.scan()).num_rows == 15


def test_upkeep_runs_automatically_after_a_number_of_commits(state: str) -> None:
    registry = Registry(state, upkeep=Upkeep(commits=5))
    create(registry, "flights")
    advance(registry, "flights", times=40)
    assert len(DeltaTable(f"{state}/registry").file_uris()) <= 6
    assert list(Path(state).rglob("*.checkpoint.parquet"))


class Broken(Upkeep):
    """Fails at every step, as on a store that refuses to list and to delete."""

    def _rewrite(self, *_: object) -> None:
        raise OSError("no")

    _checkpoint = _vacuum = _vacuum_unlisted = _rewrite


def test_upkeep_that_fails_does_not_disturb_a_transact(state: str) -> None:
    registry = Registry(state, upkeep=Broken(commits=1))
    created = create(registry, "flights")
    advance(registry, "flights", times=3)
    assert versions(registry, created.stream_id) == [0, 1, 2, 3]


def test_upkeep_keeps_recent_files_of_uncommitted_writers(state: str) -> None:
    registry = Registry(state, upkeep=NEVER)
    create(registry, "flights")
    folder = Path(state, "registry", "archived=false")
    (live,) = folder.iterdir()
    held, forgotten = folder / "held.parquet", folder / "forgotten.parquet"
    for file, days in ((held, 2), (forgotten, 31)):
        file.write_bytes(live.read_bytes())
        then = time.time() - days * 24 * 3600
        os.utime(file, (then, then))

    registry = Registry(state, upkeep=Upkeep(commits=3, retention_hours=0, vacuum_every=1))
    advance(registry, "flights", times=8)

    assert held.exists()
    assert not forgotten.exists()


def test_upkeep_deletes_removed_files_without_a_listing(state: str) -> None:
    upkeep = Upkeep(commits=3, retention_hours=0, vacuum_every=1_000_000)
    registry = Registry(state, upkeep=upkeep)
    create(registry, "flights")
    advance(registry, "flights", times=50)

    on_disk = {path.name for path in Path(state, "registry").glob("archived=*/*.parquet")}
    listed = {Path(uri).name for uri in DeltaTable(f"{state}/registry").file_uris()}
    assert on_disk == listed
