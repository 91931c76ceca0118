"""Streams changed without Spark: renamed, altered, cloned, dropped and brought back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from shutil import rmtree

import pytest
from registry_scenes import HARSH, advance, create, drop
from streams import NOON, add_file, new_stream, offset_at, quiet_stream, register

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.errors import (
    InvalidName,
    InvalidRequest,
    StreamAccessDenied,
    StreamConflict,
    StreamExists,
    StreamNotFound,
)
from airflow_provider_cdc.engine.core.model.access import Right
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.model.stream import Phase, Stream
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change


@pytest.fixture
def catalog(state: str) -> StreamCatalog:
    return StreamCatalog(state, clock=lambda: NOON, principal="me")


@pytest.fixture
def changes(tmp_path: Path, state: str) -> Path:
    """The table of the changes of an upsert table ``people``, whose stream ``u`` has a change that
    waits.
    """
    table = tmp_path / "changes"
    add_file(table, 0, NOON, data_change=False)
    metadata = {"metaData": {"id": "a-table-id", "configuration": {}}}
    with (table / "_delta_log" / f"{0:020d}.json").open("a", encoding="utf-8") as commit:
        commit.write(f"\n{json.dumps(metadata)}\n{json.dumps({'protocol': {}})}")
    source = Source("changes", str(table), "a-table-id")
    register(
        Path(state),
        new_stream("u", source=source, offset=offset_at(table, 0), upsert_table="people"),
    )
    add_file(table, 1, NOON)
    return table


def names(catalog: StreamCatalog) -> list[str]:
    return [stream.name for stream in catalog.list_streams()]


def transitions(catalog: StreamCatalog, name: str) -> list[Transition]:
    return [record.transition for record in catalog.stream_history(name)]


def resolving(registry: Registry, name: str) -> Stream:
    snapshot = registry.snapshot()
    stream = replace(snapshot.get(name), phase=Phase.RESOLVING)
    (found,) = registry.transact(snapshot, [Change(stream, Transition.RESOLVING)], actor="test")
    return found


def test_renamed_stream_keeps_everything_except_its_name(
    catalog: StreamCatalog, registry: Registry
) -> None:
    before = create(registry, "s")
    after = catalog.rename_stream("S", "T")
    assert replace(after, name="s", sequence=1) == before
    assert names(catalog) == ["T"]
    assert transitions(catalog, "t") == [Transition.CREATED, Transition.RENAMED]
    assert catalog.rename_stream("t", "Ticks").name == "Ticks"
    create(registry, "s")


def test_rename_to_a_taken_or_invalid_name_is_refused(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    create(registry, "Other")
    with pytest.raises(StreamExists):
        catalog.rename_stream("s", "OTHER")
    with pytest.raises(InvalidName):
        catalog.rename_stream("s", "a b")
    with pytest.raises(StreamNotFound):
        catalog.rename_stream("nothing", "x")
    assert names(catalog) == ["Other", "s"]


def test_alter_changes_or_removes_the_comment(catalog: StreamCatalog, registry: Registry) -> None:
    create(registry, "s")
    assert catalog.alter_stream("s", comment="for the night run").comment == "for the night run"
    assert catalog.alter_stream("s", comment=None).comment is None
    assert transitions(catalog, "s")[1:] == [Transition.ALTERED] * 2


def test_stream_in_an_open_consumption_is_not_renamed_altered_or_dropped(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    stream = resolving(registry, "s")
    for change in (
        lambda: catalog.rename_stream("s", "t"),
        lambda: catalog.alter_stream("s", comment="x"),
        lambda: catalog.drop_stream("s"),
    ):
        with pytest.raises(StreamConflict):
            change()
    assert catalog.list_streams() == [stream]


def test_clone_starts_at_the_offset_of_its_original_and_moves_separately(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    advance(registry, "s", times=3)
    clone = catalog.clone_stream("c", "S", comment="mine")
    original = catalog.get_stream("s")
    assert (clone.offset, clone.source, clone.owner) == (original.offset, original.source, "me")
    assert clone.stream_id != original.stream_id
    advance(registry, "c")
    assert (catalog.get_stream("s").offset.version, catalog.get_stream("c").offset.version) == (
        3,
        4,
    )
    with pytest.raises(StreamExists):
        catalog.clone_stream("C", "s")


def test_clone_of_a_stream_that_is_being_consumed_is_idle(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    resolving(registry, "s")
    clone = catalog.clone_stream("c", "s")
    assert (clone.phase, clone.consumption, clone.sequence) == (Phase.IDLE, None, 1)


def test_undropped_stream_is_at_its_former_offset(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "s")
    advance(registry, "s", times=2)
    drop(registry, "s")
    assert names(catalog) == []
    back = catalog.undrop_stream("S")
    assert (back.name, back.phase, back.offset.version, back.sequence) == ("s", Phase.IDLE, 2, 5)
    assert transitions(catalog, "s")[-2:] == [Transition.DROPPED, Transition.UNDROPPED]
    advance(registry, "s")
    assert catalog.get_stream("s").offset.version == 3


def test_undrop_restores_the_most_recently_dropped_stream_first(
    catalog: StreamCatalog, registry: Registry, state: str
) -> None:
    ids = []
    for _ in range(2):
        ids.append(create(registry, "s").stream_id)
        StreamCatalog(state).drop_stream("s")
    assert catalog.undrop_stream("s").stream_id == ids[1]
    with pytest.raises(StreamExists):
        catalog.undrop_stream("s")
    catalog.rename_stream("s", "newer")
    assert catalog.undrop_stream("s").stream_id == ids[0]


def test_undrop_without_a_dropped_stream_is_refused(
    catalog: StreamCatalog, registry: Registry
) -> None:
    create(registry, "other")
    with pytest.raises(StreamNotFound, match="no stream was dropped"):
        catalog.undrop_stream("s")
    create(registry, "s")
    drop(registry, "s")
    catalog.undrop_stream("s")
    catalog.rename_stream("s", "t")
    with pytest.raises(StreamNotFound, match="brought back already"):
        catalog.undrop_stream("s")


def test_undropped_stream_survives_upkeep(
    catalog: StreamCatalog, registry: Registry, state: str
) -> None:
    stream = create(registry, "s")
    create(registry, "dropped")
    drop(registry, "s")
    Registry(state, upkeep=HARSH).tidy()
    catalog.undrop_stream("s")
    drop(registry, "dropped")
    for _ in range(3):
        advance(registry, "s")
        Registry(state, upkeep=HARSH).tidy()
    assert names(catalog) == ["s"]
    assert catalog.get_stream("s").stream_id == stream.stream_id
    assert len(catalog.stream_history("s")) == 6


def test_owner_transfers_a_stream_to_another_owner(
    catalog: StreamCatalog, registry: Registry, state: str
) -> None:
    create(registry, "s")
    catalog.alter_stream("s", owner="me", readers=["ralf"])
    assert catalog.alter_stream("s", owner="olga").owner == "olga"
    with pytest.raises(StreamAccessDenied, match="me may not change or drop it"):
        catalog.alter_stream("s", owner="me")
    olga = StreamCatalog(state, principal="olga")
    with pytest.raises(InvalidName):
        olga.alter_stream("s", owner=" ")
    assert olga.alter_stream("s", comment="mine now").owner == "olga"
    assert transitions(catalog, "s")[1:] == [Transition.ALTERED] * 3


@pytest.mark.parametrize(
    "move",
    [
        lambda catalog: catalog.advance_stream("u"),
        lambda catalog: catalog.alter_stream("u", max_lag=timedelta(days=1)),
        lambda catalog: catalog.alter_stream("u", owner="olga"),
        lambda catalog: catalog.rename_stream("u", "other"),
        lambda catalog: catalog.drop_stream("u"),
        lambda catalog: catalog.permitted("u", Right.CONSUME),
        lambda catalog: catalog.permitted("u", Right.OWN),
    ],
)
def test_stream_of_an_upsert_table_refuses_direct_moves_and_changes(
    catalog: StreamCatalog, changes: Path, move: Callable[[StreamCatalog], object]
) -> None:
    before = catalog.get_stream("u")
    with pytest.raises(InvalidRequest, match=r"upsert table people wait.*apply_upserts"):
        move(catalog)
    assert catalog.get_stream("u") == before


def test_stream_of_an_upsert_table_allows_reads_clones_and_aborts(
    catalog: StreamCatalog, changes: Path
) -> None:
    before = catalog.get_stream("u")
    assert catalog.probe_stream("u").may_have_data
    assert catalog.describe_stream("u").commits_behind == 1
    assert len(catalog.stream_history("u")) == 1
    assert catalog.permitted("u", Right.READ) == catalog.permitted("u", Right.ABORT) == before
    assert catalog.clone_stream("c", "u").upsert_table is None
    catalog.advance_stream("c")
    assert catalog.get_stream("u") == before


def test_catalog_for_upserts_changes_the_stream_of_an_upsert_table(
    catalog: StreamCatalog, changes: Path
) -> None:
    lag = timedelta(minutes=5)
    assert catalog.for_upserts().alter_stream("u", max_lag=lag).max_lag == lag
    catalog.for_upserts().drop_stream("u")
    with pytest.raises(InvalidRequest, match="upsert table people"):
        catalog.undrop_stream("u")


def test_stream_of_a_missing_upsert_table_can_be_dropped(
    catalog: StreamCatalog, changes: Path
) -> None:
    rmtree(changes)
    catalog.drop_stream("u")
    assert names(catalog) == []


def test_stream_of_a_recreated_upsert_table_can_be_dropped(
    catalog: StreamCatalog, changes: Path
) -> None:
    for commit in (changes / "_delta_log").glob("*.json"):
        commit.write_text(commit.read_text().replace("a-table-id", "the id of another table"))
    catalog.drop_stream("u")
    assert names(catalog) == []


def test_registered_names_of_several_streams_come_from_one_read(
    catalog: StreamCatalog, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        create(registry, name)
    snapshot, reads = Registry.snapshot, []
    monkeypatch.setattr(Registry, "snapshot", lambda self: reads.append(self) or snapshot(self))

    assert catalog.registered(["B", "a"]) == (["b", "a"], ["a", "b", "c"])
    assert len(reads) == 1
    with pytest.raises(StreamNotFound, match="stream z"):
        catalog.registered(["a", "z"])


def test_streams_with_work_have_changes_or_cannot_be_left_out(
    catalog: StreamCatalog, state: str, tmp_path: Path
) -> None:
    for name in ("quiet", "changed", "open", "initial"):
        quiet_stream(Path(state), tmp_path / name, name)
    add_file(tmp_path / "changed", 1, NOON)
    add_file(tmp_path / "quiet", 1, NOON, data_change=False)
    registry = Registry(state)
    resolving(registry, "open")
    snapshot = registry.snapshot()
    showing = replace(snapshot.get("initial"), shows_initial_rows=True)
    registry.transact(snapshot, [Change(showing, Transition.ALTERED)], actor="test")
    register(Path(state), new_stream("without_a_source"))
    register(Path(state), new_stream("denied", owner="ada", readers=("ada",)))

    found = catalog.streams_with_work([*names(catalog), "missing"])

    assert found == {"changed", "open", "initial", "without_a_source", "denied", "missing"}
    assert catalog.streams_with_work([]) == frozenset()
