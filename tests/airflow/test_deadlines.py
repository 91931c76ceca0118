"""The deadline of a DAG that consumes a stream, by the times that the monitor recorded."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from types import SimpleNamespace

import pytest
from airflow.sdk import AsyncCallback, DeadlineAlert
from airflow.serialization.decoders import decode_deadline_alert
from airflow.serialization.encoders import encode_deadline_alert

from airflow_provider_cdc.deadlines.stale import StreamStaleDeadline
from airflow_provider_cdc.hooks.stale_after_variable import (
    read_stale_after,
    variable_key,
    write_stale_after,
)

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
KEY = "cdc_stale_after.lake"


def session_that_finds(value):
    found = None if value is None else SimpleNamespace(get_val=lambda: value)
    return SimpleNamespace(scalar=lambda _: found)


def test_deadline_is_the_time_that_the_monitor_recorded(variables):
    write_stale_after("lake", {"Orders": NOON}, is_whole=True)
    session = session_that_finds(variables[KEY])

    assert StreamStaleDeadline("ORDERS", "lake")._evaluate_with(session=session) == NOON
    assert StreamStaleDeadline("refunds", "lake")._evaluate_with(session=session) is None


@pytest.mark.parametrize("value", [None, "", "not JSON", "[]", '{"orders": "soon"}'])
def test_deadline_without_a_valid_record_evaluates_to_none(value):
    session = session_that_finds(value)

    assert StreamStaleDeadline("orders", "lake")._evaluate_with(session=session) is None


def test_deadline_without_a_database_evaluates_to_none():
    def scalar(_):
        raise ConnectionError("the database is away")

    session = SimpleNamespace(scalar=scalar)
    assert StreamStaleDeadline("orders")._evaluate_with(session=session) is None


def test_deadline_of_a_serialised_dag_is_the_same():
    alert = DeadlineAlert(
        reference=StreamStaleDeadline("orders", "lake"),
        interval=timedelta(hours=-2),
        callback=AsyncCallback("airflow_provider_cdc.notifications.log.LogNotifier"),
    )
    restored = decode_deadline_alert(json.loads(json.dumps(encode_deadline_alert(alert))))
    session = session_that_finds(json.dumps({"orders": NOON.isoformat()}))
    deadline = restored.reference.evaluate_with(
        session=session, interval=restored.interval, dag_id="d", run_id="r"
    )

    assert deadline == NOON - timedelta(hours=2)


def test_dropped_streams_lose_their_deadline_but_unreachable_ones_keep_it(variables):
    write_stale_after("lake", {"a": NOON, "b": NOON}, is_whole=True)
    later = NOON + timedelta(days=1)
    write_stale_after("lake", {"b": later}, is_whole=False)
    assert read_stale_after(variables[KEY], "a") == NOON
    assert read_stale_after(variables[KEY], "b") == later

    write_stale_after("lake", {"b": later}, is_whole=True)
    assert read_stale_after(variables[KEY], "a") is None


def test_deadlines_of_two_connections_are_separate(variables):
    write_stale_after("lake", {"a": NOON}, is_whole=True)
    write_stale_after("other", {}, is_whole=True)

    assert list(variables) == [variable_key("lake")]


def test_plugin_entry_point_is_installed_and_offers_the_deadline():
    (plugin,) = [
        found.load()
        for found in entry_points(group="airflow.plugins")
        if found.value == "airflow_provider_cdc.plugin:CdcPlugin"
    ]

    assert plugin.deadline_references == [StreamStaleDeadline]
