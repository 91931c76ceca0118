"""Streams changed without Spark: renamed, altered, cloned, dropped and brought back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from registry_scenes import HARSH, advance, create, drop
from streams import NOON

from airflow_provider_cdc.engine.catalog import StreamCatalog
from airflow_provider_cdc.engine.core.errors import (
    InvalidName,
    StreamConflict,
    StreamExists,
    StreamNotFound,
)
from airflow_provider_cdc.engine.core.lifecycle import Transition
from airflow_provider_cdc.engine.core.model import Phase, Stream
from airflow_provider_cdc.engine.storage.registry import Registry
from airflow_provider_cdc.engine.storage.registry_snapshot import Change


@pytest.fixture
def catalog(state: str) -> StreamCatalog:
    return StreamCatalog(state, clock=lambda: NOON, principal="me")


def names(catalog: StreamCatalog) -> list[str]:
    return [stream.name for stream in catalog.show()]


def transitions(catalog: StreamCatalog, name: str) -> list[Transition]:
    return [record.transition for record in catalog.history(name)]


def resolving(registry: Registry, name: str) -> Stream:
    snapshot = registry.snapshot()
    stream = replace(snapshot.get(name), phase=Phase.RESOLVING)
    (found,) = registry.transact(snapshot, [Change(stream, Transition.RESOLVING)], actor="test")
    return found


def test_renamed_stream_keeps_all_but_its_name(catalog: StreamCatalog, registry: Registry) -> None:
    before = create(registry, "s")
    after = catalog.rename("S", "T")
    assert replace(after, name="s", sequence=1) == before
    assert names(catalog) == ["T"]
    assert transitions(catalog, "t") == [Transition.CREATED, Transition.RENAMED]
    assert catalog.rename("t", "Ticks").name == "Ticks"
    create(registry, "s")


def test_stream_is_not_renamed_to_a_name_that_is_taken_or_cannot_be_one(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    create(registry, "Other")
    with pytest.raises(StreamExists):
        catalog.rename("s", "OTHER")
    with pytest.raises(InvalidName):
        catalog.rename("s", "a b")
    with pytest.raises(StreamNotFound):
        catalog.rename("nothing", "x")
    assert names(catalog) == ["Other", "s"]


def test_altered_stream_has_another_comment_or_none(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    assert catalog.alter("s", comment="for the night run").comment == "for the night run"
    assert catalog.alter("s", comment=None).comment is None
    assert transitions(catalog, "s")[1:] == [Transition.ALTERED] * 2


def test_stream_in_an_open_consumption_is_not_renamed_altered_or_dropped(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    stream = resolving(registry, "s")
    for change in (
        lambda: catalog.rename("s", "t"),
        lambda: catalog.alter("s", comment="x"),
        lambda: catalog.drop("s"),
    ):
        with pytest.raises(StreamConflict):
            change()
    assert catalog.show() == [stream]


def test_clone_stands_where_its_original_does_and_goes_its_own_way(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    advance(registry, "s", times=3)
    clone = catalog.clone("c", "S", comment="mine")
    original = catalog.describe("s")
    assert (clone.offset, clone.source, clone.owner) == (original.offset, original.source, "me")
    assert clone.stream_id != original.stream_id
    advance(registry, "c")
    assert (catalog.describe("s").offset.version, catalog.describe("c").offset.version) == (3, 4)
    with pytest.raises(StreamExists):
        catalog.clone("C", "s")


def test_clone_of_a_stream_that_is_being_consumed_is_idle(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    resolving(registry, "s")
    clone = catalog.clone("c", "s")
    assert (clone.phase, clone.consumption, clone.sequence) == (Phase.IDLE, None, 1)


def test_dropped_stream_comes_back_where_it_stood(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    advance(registry, "s", times=2)
    drop(registry, "s")
    assert names(catalog) == []
    back = catalog.undrop("S")
    assert (back.name, back.phase, back.offset.version, back.sequence) == ("s", Phase.IDLE, 2, 5)
    assert transitions(catalog, "s")[-2:] == [Transition.DROPPED, Transition.UNDROPPED]
    advance(registry, "s")
    assert catalog.describe("s").offset.version == 3


def test_stream_that_was_dropped_last_comes_back_first(
    catalog: StreamCatalog, registry: Registry, state: str
) -> None:
    ids = []
    for _ in range(2):
        ids.append(create(registry, "s").stream_id)
        StreamCatalog(state).drop("s")
    assert catalog.undrop("s").stream_id == ids[1]
    with pytest.raises(StreamExists):
        catalog.undrop("s")
    catalog.rename("s", "newer")
    assert catalog.undrop("s").stream_id == ids[0]


def test_undrop_without_a_dropped_stream_is_refused(
    catalog: StreamCatalog, registry: Registry
) -> None:
    with pytest.raises(StreamNotFound, match="no stream was dropped"):
        catalog.undrop("s")
    create(registry, "s")
    drop(registry, "s")
    catalog.undrop("s")
    catalog.rename("s", "t")
    with pytest.raises(StreamNotFound, match="brought back already"):
        catalog.undrop("s")


def test_stream_that_came_back_survives_upkeep(
    catalog: StreamCatalog, registry: Registry, state: str
) -> None:
    stream = create(registry, "s")
    create(registry, "gone")
    drop(registry, "s")
    Registry(state, upkeep=HARSH).tidy()
    catalog.undrop("s")
    drop(registry, "gone")
    for _ in range(3):
        advance(registry, "s")
        Registry(state, upkeep=HARSH).tidy()
    assert names(catalog) == ["s"]
    assert catalog.describe("s").stream_id == stream.stream_id
    assert len(catalog.history("s")) == 6
