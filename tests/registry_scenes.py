"""Helpers for tests of the registry."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from streams import NOON, new_offset, new_stream

from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.serialization import FORMAT, stream_text
from airflow_provider_cdc.engine.core.model.stream import Phase, Stream
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change
from airflow_provider_cdc.engine.storage.registry.registry_table import SCHEMA
from airflow_provider_cdc.engine.storage.registry.registry_upkeep import Upkeep

Damage = Callable[[dict[str, Any]], object]

NEVER = Upkeep(commits=1_000_000)
# Keeps only what a snapshot of now needs: safe without other writers.
HARSH = Upkeep(commits=3, retention_hours=0, unlisted_hours=0, vacuum_every=1)
WRITERS = 4


def stream(name: str, version: int = 0, stream_id: str | None = None) -> Stream:
    """A stream with a state as long as that of real streams."""
    metadata = {"schemaString": random.Random(name).randbytes(1000).hex()}
    return new_stream(
        name, stream_id=stream_id or str(uuid.uuid4()), offset=new_offset(version, metadata)
    )


def create(registry: Registry, name: str, actor: str = "creator") -> Stream:
    (created,) = registry.transact(
        registry.snapshot(), [Change(stream(name), Transition.CREATED)], actor=actor
    )
    return created


def advanced(before: Stream) -> Change:
    offset = replace(before.offset, version=before.offset.version + 1)
    return Change(before.with_offsets(offset), Transition.ADVANCED)


def advance(registry: Registry, name: str, times: int = 1) -> None:
    for _ in range(times):
        snapshot = registry.snapshot()
        registry.transact(snapshot, [advanced(snapshot.get(name))], actor="advancer")


def drop(registry: Registry, name: str) -> None:
    snapshot = registry.snapshot()
    dropped = replace(snapshot.get(name), phase=Phase.DROPPED)
    registry.transact(snapshot, [Change(dropped, Transition.DROPPED)], actor="dropper")


def versions(registry: Registry, stream_id: str) -> list[int]:
    return [record.stream.offset.version for record in registry.history(stream_id)]


def damage(state: str, stream: Stream, change: Damage, *, stored_format: int = FORMAT) -> None:
    """Append a newest state of ``stream``, as another program may have written it."""
    document = json.loads(stream_text(stream))
    change(document["stream"])
    text = json.dumps(document | {"format": stored_format})
    append(state, stream, text)


def append(state: str, stream: Stream, text: str) -> None:
    row = {
        "stream_id": stream.stream_id,
        "sequence": stream.sequence + 1,
        "name": stream.name,
        "name_key": stream.name,
        "transition": Transition.ALTERED.value,
        "at": NOON,
        "nonce": "n",
        "actor": "another program",
        "state": text,
        "archived": False,
    }
    write_deltalake(f"{state}/registry", pa.Table.from_pylist([row], SCHEMA), mode="append")


def mistyped(state: dict[str, Any]) -> None:
    state["max_lag"] = "10 minutes"
