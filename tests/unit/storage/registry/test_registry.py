"""The registry in one process."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from registry_scenes import HARSH, NEVER, advance, advanced, create, drop, stream, versions
from streams import NOON

from airflow_provider_cdc.engine.core.errors import (
    InvalidRequest,
    StoreUnreachable,
    StreamConflict,
    StreamExists,
    StreamNotFound,
)
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.stream import Phase
from airflow_provider_cdc.engine.storage.registry import registry_table
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change

# --- creating, finding, dropping


def test_snapshot_without_state_folder_is_empty_and_creates_nothing(
    registry: Registry, state: str
) -> None:
    assert registry.snapshot().streams() == []
    assert registry.history("any") == []
    registry.tidy()
    assert not os.path.exists(state)


def test_find_after_create_ignores_case(registry: Registry) -> None:
    created = create(registry, "Straße")
    assert created.sequence == 1
    snapshot = registry.snapshot()
    assert snapshot.find("STRAßE") == created
    assert snapshot.find("strasse") is None
    assert snapshot.get("straße") == created
    assert snapshot.by_id(created.stream_id) == created
    assert snapshot.streams() == [created]


def test_stream_is_replaced_in_one_step(registry: Registry) -> None:
    old = create(registry, "s")
    snapshot = registry.snapshot()
    dropped = Change(replace(old, phase=Phase.DROPPED), Transition.DROPPED)
    (_, new) = registry.transact(
        snapshot, [dropped, Change(stream("S"), Transition.CREATED)], actor="replacer"
    )

    assert registry.snapshot().streams() == [new]
    assert registry.history(old.stream_id)[-1].nonce == registry.history(new.stream_id)[0].nonce


def test_stream_that_moved_meanwhile_is_not_replaced(registry: Registry) -> None:
    old = create(registry, "s")
    snapshot = registry.snapshot()
    advance(registry, "s")
    dropped = Change(replace(old, phase=Phase.DROPPED), Transition.DROPPED)
    with pytest.raises(StreamConflict):
        registry.transact(
            snapshot, [dropped, Change(stream("s"), Transition.CREATED)], actor="replacer"
        )

    assert registry.snapshot().get("s").stream_id == old.stream_id


def test_streams_are_sorted_by_name_without_case(registry: Registry) -> None:
    for name in ("b", "C", "a"):
        create(registry, name)
    assert [item.name for item in registry.snapshot().streams()] == ["a", "b", "C"]


def test_get_of_missing_stream_suggests_close_names(registry: Registry) -> None:
    create(registry, "Flights_Changes")
    with pytest.raises(StreamNotFound, match="did you mean Flights_Changes"):
        registry.snapshot().get("flight_changes")
    with pytest.raises(StreamNotFound, match="name an existing one: Flights_Changes"):
        registry.snapshot().get("zzz")
    with pytest.raises(StreamNotFound):
        registry.snapshot().by_id("no such id")


def test_create_under_live_name_is_refused(registry: Registry) -> None:
    create(registry, "flights")
    with pytest.raises(StreamExists, match="stream flights: exists already"):
        create(registry, "FLIGHTS")


def test_create_twice_under_one_name_in_one_commit_is_refused(registry: Registry) -> None:
    changes = [Change(stream(name), Transition.CREATED) for name in ("x", "X")]
    with pytest.raises(StreamExists):
        registry.transact(registry.snapshot(), changes, actor="creator")
    assert registry.snapshot().streams() == []


def test_recreate_after_drop_is_another_stream_and_both_keep_their_history(
    registry: Registry,
) -> None:
    first = create(registry, "flights")
    drop(registry, "flights")
    assert registry.snapshot().find("flights") is None
    second = create(registry, "flights")
    assert second.stream_id != first.stream_id
    assert registry.snapshot().streams() == [second]
    assert [record.transition for record in registry.history(first.stream_id)] == [
        Transition.CREATED,
        Transition.DROPPED,
    ]
    assert [record.transition for record in registry.history(second.stream_id)] == [
        Transition.CREATED
    ]


def test_rename_to_live_name_is_refused_and_to_free_name_lands(registry: Registry) -> None:
    create(registry, "a")
    create(registry, "b")
    snapshot = registry.snapshot()
    renamed = replace(snapshot.get("a"), name="B")
    with pytest.raises(StreamExists):
        registry.transact(snapshot, [Change(renamed, Transition.ADVANCED)], actor="renamer")
    free = replace(renamed, name="c")
    registry.transact(snapshot, [Change(free, Transition.ADVANCED)], actor="renamer")
    assert [item.name for item in registry.snapshot().streams()] == ["b", "c"]


def test_history_holds_every_record_oldest_first(state: str) -> None:
    ticks = iter(NOON + timedelta(microseconds=step) for step in range(9))
    registry = Registry(state, clock=lambda: next(ticks), upkeep=NEVER)
    created = create(registry, "flights", actor="it's me")
    advance(registry, "flights", times=2)
    records = registry.history(created.stream_id)
    assert [record.stream.sequence for record in records] == [1, 2, 3]
    assert [record.at for record in records] == [
        NOON + timedelta(microseconds=step) for step in range(3)
    ]
    assert [record.actor for record in records] == ["it's me", "advancer", "advancer"]
    assert len({record.nonce for record in records}) == 3
    assert records[-1].stream == registry.snapshot().get("flights")


def test_history_of_id_with_quotes_is_taken_literally(registry: Registry) -> None:
    odd = replace(stream("flights"), stream_id="x' OR '1' = '1\\")
    registry.transact(registry.snapshot(), [Change(odd, Transition.CREATED)], actor="a")
    create(registry, "other")
    assert len(registry.history(odd.stream_id)) == 1
    assert registry.history("x' OR '1' = '1") == []
    registry.tidy()
    drop(registry, "flights")
    registry.tidy()
    assert len(registry.history(odd.stream_id)) == 2


# --- the state folder


def test_state_as_path_and_as_uri_is_one_registry(state: str) -> None:
    created = create(Registry(state), "flights")
    uri = Path(state).as_uri()
    for form in (uri, uri + "/", uri.replace("file:///", "file:/"), state + "/"):
        assert Registry(form).snapshot().streams() == [created]


@pytest.mark.parametrize(
    "state",
    ["", "relative", "~/x", "file://host/x", "file:///a#b", "s3:///x", "/a[b]", "/a%20b", "/a\0b"],
)
def test_state_that_is_not_a_usable_location_is_refused(state: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be used"):
        Registry(state)


def test_transact_into_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    registry = Registry(str(tmp_path / "file"))
    assert registry.snapshot().streams() == []
    with pytest.raises(InvalidRequest, match="cannot be written"):
        create(registry, "flights")


def test_table_on_disk_is_compressed_and_keeps_no_statistics_of_the_state(
    registry: Registry, state: str
) -> None:
    create(registry, "flights")
    registry.tidy()
    actions = pa.table(DeltaTable(f"{state}/registry").get_add_actions(flatten=True))
    assert "min.sequence" in actions.schema.names
    assert not {"min.state", "null_count.state"} & set(actions.schema.names)
    assert all(".zstd." in path for path in actions["path"].to_pylist())


# --- compare and set


def test_transact_of_moved_stream_names_stream_and_who_moved_it(registry: Registry) -> None:
    create(registry, "flights")
    stale = registry.snapshot()
    advance(registry, "flights")
    with pytest.raises(StreamConflict, match=r"stream flights: .*'advanced', by advancer"):
        registry.transact(stale, [advanced(stale.get("flights"))], actor="late")
    assert registry.snapshot().get("flights").offset.version == 1


def test_snapshot_used_twice_represents_the_same_moment(registry: Registry) -> None:
    create(registry, "a")
    create(registry, "b")
    snapshot = registry.snapshot()
    registry.transact(snapshot, [advanced(snapshot.get("a"))], actor="first")
    advance(registry, "b")
    with pytest.raises(StreamConflict, match="stream b"):
        registry.transact(snapshot, [advanced(snapshot.get("b"))], actor="second")
    with pytest.raises(StreamConflict, match=r"stream a: .*'advanced', by first"):
        registry.transact(snapshot, [advanced(snapshot.get("a"))], actor="second")


def test_transact_with_other_sequence_than_the_snapshot_is_refused(registry: Registry) -> None:
    created = create(registry, "flights")
    snapshot = registry.snapshot()
    for wrong in (
        Change(replace(created, sequence=7), Transition.ADVANCED),
        Change(created, Transition.CREATED),
        Change(stream("unknown"), Transition.ADVANCED),
    ):
        with pytest.raises(StreamConflict, match="expected sequence"):
            registry.transact(snapshot, [wrong], actor="wrong")
    assert len(registry.history(created.stream_id)) == 1


def test_transact_of_nothing_or_of_one_stream_twice_is_refused(registry: Registry) -> None:
    create(registry, "flights")
    snapshot = registry.snapshot()
    change = advanced(snapshot.get("flights"))
    for changes in ([], [change, change]):
        with pytest.raises(InvalidRequest):
            registry.transact(snapshot, changes, actor="wrong")


def test_transact_with_mismatched_phase_and_transition_is_refused(registry: Registry) -> None:
    create(registry, "flights")
    snapshot = registry.snapshot()
    with pytest.raises(InvalidRequest, match="cannot be dropped into phase idle"):
        registry.transact(
            snapshot, [Change(snapshot.get("flights"), Transition.DROPPED)], actor="wrong"
        )


def test_transact_of_several_streams_when_one_has_moved_changes_none(registry: Registry) -> None:
    first, second = create(registry, "a"), create(registry, "b")
    stale = registry.snapshot()
    advance(registry, "b")
    with pytest.raises(StreamConflict, match="stream b"):
        registry.transact(stale, [advanced(stale.get(name)) for name in "ab"], actor="late")
    assert versions(registry, first.stream_id) == [0]
    now = registry.snapshot()
    moved = registry.transact(now, [advanced(now.get(name)) for name in "ab"], actor="both")
    assert [item.offset.version for item in moved] == [1, 2]
    records = [registry.history(item.stream_id)[-1] for item in (first, second)]
    assert records[0].nonce == records[1].nonce


def test_create_of_a_name_taken_since_the_snapshot_is_refused(registry: Registry) -> None:
    create(registry, "other")
    stale = registry.snapshot()
    create(registry, "flights")
    with pytest.raises(StreamExists):
        registry.transact(stale, [Change(stream("Flights"), Transition.CREATED)], actor="late")
    assert [item.name for item in registry.snapshot().streams()] == ["flights", "other"]
    drop(registry, "flights")
    registry.transact(stale, [Change(stream("Flights"), Transition.CREATED)], actor="late")
    assert [item.name for item in registry.snapshot().streams()] == ["Flights", "other"]


def test_create_on_a_snapshot_without_a_table_detects_later_streams(
    registry: Registry,
) -> None:
    nothing = registry.snapshot()
    create(registry, "flights")
    with pytest.raises(StreamExists):
        registry.transact(nothing, [Change(stream("flights"), Transition.CREATED)], actor="late")
    registry.transact(nothing, [Change(stream("other"), Transition.CREATED)], actor="late")
    assert len(registry.snapshot().streams()) == 2


def test_moved_stream_after_upkeep_is_refused_and_unmoved_ones_land(state: str) -> None:
    registry = Registry(state, upkeep=HARSH)
    for name in "abc":
        create(registry, name)
    used, unused = registry.snapshot(), registry.snapshot()
    registry.transact(used, [advanced(used.get("b"))], actor="other")
    files = set(DeltaTable(f"{state}/registry").file_uris())
    advance(registry, "a", times=20)
    registry.tidy()
    assert not files & set(DeltaTable(f"{state}/registry").file_uris())
    assert len(list(Path(state).rglob("*.zstd.parquet"))) <= 4
    for stale in (used, unused):
        with pytest.raises(StreamConflict, match="stream a"):
            registry.transact(stale, [advanced(stale.get("a"))], actor="late")
    registry.transact(unused, [advanced(unused.get("c"))], actor="late")
    assert [item.offset.version for item in registry.snapshot().streams()] == [20, 1, 1]


@pytest.mark.parametrize("used", [False, True])
def test_moved_stream_after_log_cleanup_is_refused_and_unmoved_ones_land(
    registry: Registry, state: str, used: bool
) -> None:
    create(registry, "a")
    create(registry, "b")
    stale = registry.snapshot()
    if used:
        registry.transact(stale, [advanced(stale.get("a"))], actor="early")
    advance(registry, "a", times=3)
    DeltaTable(f"{state}/registry").create_checkpoint()
    newest = registry.snapshot().version
    for commit in Path(state, "registry", "_delta_log").glob("*.json"):
        if commit.stem.isdigit() and int(commit.stem) < (newest or 0):
            commit.unlink()
    with pytest.raises(StreamConflict, match="'advanced', by advancer"):
        registry.transact(stale, [advanced(stale.get("a"))], actor="late")
    registry.transact(stale, [advanced(stale.get("b"))], actor="late")
    assert [item.offset.version for item in registry.snapshot().streams()] == [3 + used, 1]


@pytest.mark.parametrize(
    "answer",
    [
        "Kernel error -> Generic GCS error\n  \x1b[31m↳\x1b[0m Error performing token request\n",
        "Generic GCS error\n  ↳ Error performing token request.",
    ],
)
def test_registry_in_a_store_that_does_not_answer_says_what_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OSError(answer)

    monkeypatch.setattr(registry_table, "DeltaTable", away)

    with pytest.raises(StoreUnreachable) as caught:
        Registry(str(tmp_path)).snapshot()

    assert caught.value.cause == "Generic GCS error: Error performing token request"
    assert caught.value.subject == f"state folder at {tmp_path}"
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), OSError)
