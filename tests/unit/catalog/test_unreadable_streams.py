"""A record that cannot be read makes its stream unusable, and no other."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from registry_scenes import append, damage, mistyped
from streams import NOON, new_stream
from typer.testing import CliRunner

from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.engine import StreamCatalog, StreamUnreadable
from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.core.errors import (
    InvalidRequest,
    StreamAccessDenied,
    StreamExists,
)
from airflow_provider_cdc.engine.core.model.alerts import Alert
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.serialization import (
    ALTERABLE,
    FORMAT,
    UnreadableStream,
    read_stream,
    stream_text,
)
from airflow_provider_cdc.engine.core.model.stream import Phase, Stream
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change


@pytest.fixture
def catalog(state: str) -> StreamCatalog:
    return StreamCatalog(state, clock=lambda: NOON, principal="somebody")


def create(registry: Registry, name: str) -> Stream:
    change = Change(new_stream(name, stream_id=uuid.uuid4().hex), Transition.CREATED)
    (created,) = registry.transact(registry.snapshot(), [change], actor="creator")
    return created


# --- reading


def test_other_streams_keep_working_beside_an_unreadable_one(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    bad, good = create(registry, "bad"), create(registry, "good")
    damage(state, bad, mistyped)
    assert [each.name for each in catalog.list_streams()] == ["good"]
    assert catalog.registered(["Good"]) == (["good"], ["bad", "good"])
    assert catalog.get_stream("good") == good
    assert catalog.alter_stream("good", comment="fine").comment == "fine"
    catalog.drop_stream("good")
    assert catalog.registered([]) == ([], ["bad"])


def test_status_of_an_unreadable_stream_says_why_and_what_is_known(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    damage(state, create(registry, "bad"), mistyped)
    create(registry, "good")
    bad, good = catalog.describe_streams()
    assert (good.name, good.max_lag) == ("good", None)
    assert (bad.name, bad.table_on, bad.owner, bad.stale) == ("bad", "flights", "somebody", True)
    assert "max_lag: Invalid ISO8601 duration" in str(bad.invalid_reason)
    assert "set max_lag with AlterStream or alter_stream" in str(bad.invalid_reason)


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"format": 1}', '{"format": "x"}'])
def test_status_of_a_damaged_record_knows_only_the_name(
    registry: Registry, catalog: StreamCatalog, state: str, text: str
) -> None:
    append(state, create(registry, "bad"), text)
    (bad,) = catalog.describe_streams()
    assert (bad.name, bad.table_on, bad.mode, bad.owner) == ("bad", None, None, None)
    assert "stream bad: cannot be read. Cause: " in str(bad.invalid_reason)
    catalog.drop_stream("bad")
    assert catalog.describe_streams() == []


def with_damaged_offset(state: dict[str, Any]) -> None:
    state["bases"][0]["offset"]["metadata"] = "no JSON"


def test_status_of_a_stream_with_a_damaged_offset_says_why(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    create(registry, "good")
    damage(state, create(registry, "bad"), with_damaged_offset)
    found = {status.name: status.invalid_reason for status in catalog.describe_streams()}
    assert "bases" in str(found["bad"])
    assert "its source" in str(found["good"])


def test_call_that_names_an_unreadable_stream_fails_with_the_reason(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    damage(state, create(registry, "bad"), mistyped)
    calls: list[Callable[[], object]] = [
        lambda: catalog.get_stream("bad"),
        lambda: catalog.describe_stream("bad"),
        lambda: catalog.probe_stream("bad"),
        lambda: catalog.advance_stream("bad"),
        lambda: catalog.rename_stream("bad", "better"),
        lambda: catalog.clone_stream("copy", "bad"),
        lambda: catalog.alter_stream("bad", comment="other"),
    ]
    for call in calls:
        with pytest.raises(StreamUnreadable, match=r"stream bad: cannot be read\. Cause: max_lag"):
            call()


def test_command_line_shows_an_unreadable_stream(registry: Registry, state: str) -> None:
    damage(state, create(registry, "bad"), mistyped)
    create(registry, "good")
    shown = CliRunner().invoke(app, ["streams", "--state", state, "-o", "json"])
    lines = {line["name"]: line["invalid_reason"] for line in json.loads(shown.stdout)}
    assert shown.exit_code == 0
    assert "cannot be read" in lines["bad"]
    named = CliRunner().invoke(app, ["streams", "bad", "--state", state])
    assert (named.exit_code, "cannot be read" in named.stderr) == (1, True)


def test_monitor_reports_an_unreadable_stream_once(registry: Registry, state: str) -> None:
    damage(state, create(registry, "bad"), mistyped)
    monitor = StreamMonitor(state, clock=lambda: NOON)
    seen: list[Alert] = []
    for _ in range(2):
        monitor.run({"a": seen.append}, margin=timedelta(days=2))
    assert [(alert.stream, alert.kind.value) for alert in seen] == [("bad", "breach")]
    assert "cannot be read" in seen[0].reason


def test_history_of_an_unreadable_stream_holds_what_can_be_read(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    created = create(registry, "bad")
    damage(state, created, mistyped)
    first, second = catalog.stream_history("bad")
    assert first.stream == created
    assert isinstance(second.stream, UnreadableStream)
    assert (second.actor, second.transition) == ("another program", Transition.ALTERED)


def test_record_of_a_newer_version_asks_for_an_upgrade(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    stream = create(registry, "new")
    damage(state, stream, lambda state: state.update(colour="red"), stored_format=FORMAT + 1)
    with pytest.raises(StreamUnreadable, match=r"newer version.*Fix: upgrade airflow-provider-cdc"):
        catalog.get_stream("new")
    with pytest.raises(StreamUnreadable, match="newer version"):
        catalog.alter_stream("new", comment=None)


# --- the ways out


@pytest.mark.parametrize("field", ALTERABLE)
def test_alter_repairs_an_unreadable_field(
    registry: Registry, catalog: StreamCatalog, state: str, field: str
) -> None:
    created = create(registry, "bad")
    damage(state, created, lambda state: state.update({field: [5]}))
    good = {"owner": "other", "max_data_extension": "P1D", "readers": ["r"]}.get(field)
    altered = catalog.alter_stream("bad", **{field: good})
    assert catalog.get_stream("bad") == altered
    assert altered.sequence == created.sequence + 2
    assert altered.bases == created.bases


def test_alter_cannot_repair_a_damaged_offset(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    damage(state, create(registry, "bad"), lambda state: state.update(bases="?"))
    with pytest.raises(StreamUnreadable, match=r"bases: .* Fix: replace it"):
        catalog.alter_stream("bad", comment=None, max_lag=None)


def test_dropped_unreadable_stream_frees_its_name(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    created = create(registry, "bad")
    damage(state, created, mistyped)
    catalog.drop_stream("bad")
    assert catalog.registered([]) == ([], [])
    assert create(registry, "bad").stream_id != created.stream_id
    records = registry.history(created.stream_id)
    assert [record.transition.value for record in records] == ["created", "altered", "dropped"]


def test_undrop_of_an_unreadable_stream_is_refused_with_the_reason(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    damage(state, create(registry, "bad"), mistyped)
    catalog.drop_stream("bad")
    with pytest.raises(StreamUnreadable, match="dropped while its record could not be read"):
        catalog.undrop_stream("bad")


def test_name_of_an_unreadable_stream_is_taken(registry: Registry, state: str) -> None:
    damage(state, create(registry, "bad"), mistyped)
    with pytest.raises(StreamExists, match="its record cannot be read"):
        create(registry, "BAD")


def test_unreadable_stream_is_dropped_only_by_its_owner(
    registry: Registry, catalog: StreamCatalog, state: str
) -> None:
    def belong_to_another(state: dict[str, Any]) -> None:
        state.update(owner="another", readers=[], max_lag=1)

    damage(state, create(registry, "bad"), belong_to_another)
    with pytest.raises(StreamAccessDenied):
        catalog.drop_stream("bad")


# --- writing


def test_stream_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    stream = new_stream("s", max_lag=timedelta(microseconds=1), readers=("a",))
    text = stream_text(stream)
    assert read_stream(text, stream_id="i", name="s", sequence=1) == stream


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_lag", "10 minutes"),
        ("comment", 5),
        ("comment", "\ud800"),
        ("readers", [1, 2]),
        ("readers", ["a"]),
        ("owner", None),
        ("phase", "asleep"),
        ("max_data_extension", 14),
        ("mode", object()),
    ],
)
def test_transact_of_an_unreadable_state_writes_nothing(
    registry: Registry, field: str, value: object
) -> None:
    kept = create(registry, "kept")
    version = registry.snapshot().version
    bad = new_stream("bad", **{"phase": Phase.IDLE, field: value})
    with pytest.raises(InvalidRequest):
        registry.transact(registry.snapshot(), [Change(bad, Transition.CREATED)], actor="a")
    assert (registry.snapshot().version, registry.snapshot().streams()) == (version, [kept])
