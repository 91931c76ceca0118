"""The registry against a dict: moves, stale handles and upkeep in any order."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from streams import NOON, new_stream

from airflow_provider_cdc.engine.core.errors import StreamConflict, StreamExists
from airflow_provider_cdc.engine.core.model.lifecycle import TRANSITIONS, Transition
from airflow_provider_cdc.engine.core.model.stream import Phase, Stream
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change, RegistrySnapshot
from airflow_provider_cdc.engine.storage.registry.registry_upkeep import Upkeep

NAMES = st.sampled_from(["a", "A", "straße", "STRASSE", "it's"])


@dataclass
class Model:
    """The expected registry: every state of every stream, oldest first."""

    past: dict[str, list[Stream]] = field(default_factory=dict)

    def live(self) -> dict[str, Stream]:
        newest = [states[-1] for states in self.past.values()]
        return {item.name.lower(): item for item in newest if item.phase is not Phase.DROPPED}

    def make(self, changes: list[Change]) -> None:
        for change in changes:
            after = replace(change.stream, sequence=change.stream.sequence + 1)
            self.past.setdefault(after.stream_id, []).append(after)

    def expected_error(self, changes: list[Change]) -> type[Exception] | None:
        for change in changes:
            states = self.past.get(change.stream.stream_id)
            if (states[-1].sequence if states else 0) != change.stream.sequence:
                return StreamConflict
        for change in changes:
            created = change.transition is Transition.CREATED
            if created and change.stream.name.lower() in self.live():
                return StreamExists
        return None


class RegistryMachine(RuleBasedStateMachine):
    snapshots = Bundle("snapshots")

    @initialize(commits=st.sampled_from([2, 5, 1000]))
    def open(self, commits: int) -> None:
        self.folder = tempfile.mkdtemp(prefix="registry-machine-")
        self.upkeep = Upkeep(commits=commits, retention_hours=0, vacuum_every=1)
        self.registry = self._new_registry()
        self.model = Model()

    def _new_registry(self) -> Registry:
        return Registry(self.folder, clock=lambda: NOON, upkeep=self.upkeep)

    def _transact(self, snapshot: RegistrySnapshot, changes: list[Change]) -> None:
        error = self.model.expected_error(changes)
        if error is None:
            self.registry.transact(snapshot, changes, actor="machine")
            self.model.make(changes)
        else:
            with pytest.raises(error):
                self.registry.transact(snapshot, changes, actor="machine")

    @rule(target=snapshots)
    def read(self) -> RegistrySnapshot:
        return self.registry.snapshot()

    @rule(name=NAMES)
    def create(self, name: str) -> None:
        self._create(self.registry.snapshot(), name)

    @rule(snapshot=snapshots, name=NAMES)
    def create_on_old_snapshot(self, snapshot: RegistrySnapshot, name: str) -> None:
        if snapshot.find(name) is None:
            self._create(snapshot, name)

    def _create(self, snapshot: RegistrySnapshot, name: str) -> None:
        stream = new_stream(name, stream_id=f"id-{len(self.model.past)}")
        self._transact(snapshot, [Change(stream, Transition.CREATED)])

    @precondition(lambda self: self.model.live())
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        self._move(self.registry.snapshot(), data)

    @rule(snapshot=snapshots, data=st.data())
    def move_on_old_snapshot(self, snapshot: RegistrySnapshot, data: st.DataObject) -> None:
        if snapshot.streams():
            self._move(snapshot, data)

    def _move(self, snapshot: RegistrySnapshot, data: st.DataObject) -> None:
        """Move some streams of ``snapshot`` together, each by a transition of its phase."""
        chosen = data.draw(
            st.lists(
                st.sampled_from(snapshot.streams()),
                min_size=1,
                max_size=3,
                unique_by=lambda item: item.stream_id,
            )
        )
        changes = []
        for stream in chosen:
            allowed = sorted(item for phase, item in TRANSITIONS if phase is stream.phase)
            transition = data.draw(st.sampled_from(allowed))
            version = stream.offset.version + (transition is Transition.ADVANCED)
            after = replace(
                stream.with_offsets(replace(stream.offset, version=version)),
                phase=TRANSITIONS[stream.phase, transition],
            )
            changes.append(Change(after, transition))
        self._transact(snapshot, changes)

    @rule()
    def tidy(self) -> None:
        self.registry.tidy()

    @rule()
    def restart(self) -> None:
        self.registry = self._new_registry()

    @invariant()
    def snapshot_equals_the_model(self) -> None:
        found = self.registry.snapshot()
        live = self.model.live()
        assert found.streams() == [live[key] for key in sorted(live)]
        assert all(found.find(key.capitalize()) == stream for key, stream in live.items())

    @invariant()
    def history_equals_the_model(self) -> None:
        for stream_id, states in self.model.past.items():
            assert [record.stream for record in self.registry.history(stream_id)] == states

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


@pytest.mark.stateful
class TestRegistryMachine(RegistryMachine.TestCase):
    settings = settings(
        max_examples=25,
        stateful_step_count=30,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
