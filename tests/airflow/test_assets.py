"""Streams and consumptions as assets: their URIs, and the events of a consumption."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.execution_time.context import OutletEventAccessors
from partitions import new_change_stream
from streams import NOON

from airflow_provider_cdc.assets.change_stream import ADVANCES, change_stream_asset
from airflow_provider_cdc.assets.stream import (
    CONSUMPTIONS,
    announce,
    consumption_asset,
    create_asset,
    stream_asset,
    upsert_table_asset,
)
from airflow_provider_cdc.engine.core.errors import InvalidName
from airflow_provider_cdc.engine.core.model.outcomes import Outcome, StreamOutcome
from airflow_provider_cdc.jobs.model import Answer
from airflow_provider_cdc.operators.change_streams import AdvanceChangeStream
from airflow_provider_cdc.operators.maintenance import RecoverStream
from airflow_provider_cdc.operators.stream import ConsumeStream


def outcome(**rows: int) -> Outcome:
    """A consumption of the streams that ``rows`` names, each with its number of inserted rows."""
    streams = tuple(
        StreamOutcome(
            f"id of {name}",
            name,
            3,
            7,
            "file difference",
            {"inserted": count},
            through_timestamp=NOON,
        )
        for name, count in rows.items()
    )
    return Outcome("c", "dag.task", streams, (), 1.0)


@pytest.mark.parametrize(
    ("stream", "conn_id", "uri"),
    [
        ("orders", "cdc_default", "cdc://cdc_default/orders"),
        ("Orders", "team.a", "cdc://team.a/orders"),
        ("Bestellungen_für_München", "a/b", "cdc://a%2Fb/bestellungen_f%C3%BCr_m%C3%BCnchen"),
    ],
)
def test_two_spellings_of_a_stream_are_one_asset(stream, conn_id, uri):
    asset = stream_asset(stream, conn_id=conn_id)

    assert (asset.name, asset.uri) == (uri, uri)
    assert Asset(name="x", uri=uri).uri == uri
    assert consumption_asset(stream, conn_id=conn_id).uri == f"{uri}/consumptions"
    place, _, name = uri.rpartition("/")
    advanced = change_stream_asset(stream, conn_id=conn_id).uri
    assert advanced == f"{place}/change-streams/{name}"
    assert Asset(name="x", uri=advanced).uri == advanced
    assert create_asset(stream=stream, conn_id=conn_id).uri == uri


def test_uri_written_by_hand_equals_the_uri_of_the_stream():
    assert Asset("cdc://cdc_default/Orders/").uri == stream_asset("orders").uri
    assert Asset("cdc://cdc_default/ORDERS/consumptions").uri == consumption_asset("orders").uri
    by_hand = Asset("cdc://cdc_default/change-streams/ORDERS")
    assert by_hand.uri == change_stream_asset("orders").uri


@pytest.mark.parametrize(
    "uri",
    [
        "cdc://cdc_default",
        "cdc:///orders",
        "cdc://cdc_default/1st",
        "cdc://cdc_default/orders/history",
        "cdc://cdc_default/change-streams",
        "cdc://cdc_default/change-streams/1st",
        "cdc://cdc_default/orders/consumptions/1",
        "cdc://cdc_default/orders?at=3",
    ],
)
def test_uri_that_names_no_stream_is_refused(uri):
    with pytest.raises(ValueError, match="expected cdc://connection/stream"):
        Asset(uri)


def test_asset_of_an_invalid_stream_name_is_refused():
    with pytest.raises(InvalidName):
        stream_asset("1st")


def test_watchers_of_one_stream_in_two_dags_are_equal_and_share_a_poll():
    first, second = stream_asset("orders"), stream_asset("ORDERS")

    assert first == second
    assert first.watchers[0].trigger.shared_stream_key() == (
        stream_asset("others").watchers[0].trigger.shared_stream_key()
    )


def test_consumption_emits_an_event_for_each_stream_with_consumed_rows():
    events = OutletEventAccessors()
    announce({"outlet_events": events}, "lake", [outcome(orders=2, refunds=0)], [CONSUMPTIONS])

    (event,) = events[CONSUMPTIONS].asset_alias_events
    assert event.dest_asset_key.uri == "cdc://lake/orders/consumptions"
    assert event.extra == {
        "consumption_id": "c",
        "consumer": "dag.task",
        "after_version": 3,
        "through_version": 7,
        "through_timestamp": "2026-01-01T12:00:00+00:00",
        "rows": {"inserted": 2},
    }
    assert json.loads(json.dumps(event.extra)) == event.extra


def test_outlets_of_the_task_report_the_consumed_streams():
    events, target = OutletEventAccessors(), Asset("x-delta://lake/target")
    announce({"outlet_events": events}, "lake", [outcome(orders=2)], [target, CONSUMPTIONS])

    (consumed,) = events[target].extra["consumed"]
    assert (consumed["stream"], consumed["through_version"]) == ("orders", 7)


def test_outlets_of_a_task_with_several_consumptions_report_them_all():
    events, target = OutletEventAccessors(), Asset("x-delta://lake/target")
    outcomes = [outcome(orders=2), outcome(refunds=0), outcome(returns=1)]
    announce({"outlet_events": events}, "lake", outcomes, [target, CONSUMPTIONS])

    consumed = events[target].extra["consumed"]
    assert [each["stream"] for each in consumed] == ["orders", "returns"]
    assert len(events[CONSUMPTIONS].asset_alias_events) == 2


def test_apply_of_an_upsert_table_emits_an_event_of_the_table():
    events = OutletEventAccessors()
    announce(
        {"outlet_events": events},
        "cdc_default",
        [outcome(upserts_dfaccec0=2)],
        [CONSUMPTIONS],
        upsert_table="lake.orders",
    )

    (event,) = events[CONSUMPTIONS].asset_alias_events
    asset = upsert_table_asset("lake.orders")
    assert (event.dest_asset_key.name, event.dest_asset_key.uri) == (asset.name, asset.uri)
    assert (asset.name, asset.uri, asset.group) == (
        "upsert table lake.orders",
        "cdc://cdc_default/upsert-tables/lake.orders",
        "cdc",
    )


@pytest.mark.parametrize("table", ["/lake/o r/ders", "main.`a b`.bücher"])
def test_upsert_table_of_any_name_has_a_stable_uri(table):
    asset = upsert_table_asset(table, conn_id="team.a")

    assert asset.name == f"upsert table {table} of team.a"
    assert Asset(name="x", uri=asset.uri).uri == asset.uri


def test_assets_of_the_package_share_one_group():
    found = [
        stream_asset("orders"),
        consumption_asset("orders"),
        change_stream_asset("orders"),
        create_asset(stream="orders", conn_id="c"),
        CONSUMPTIONS,
        ADVANCES,
    ]
    assert {asset.group for asset in found} == {"cdc"}


def test_advance_emits_an_event_of_its_change_stream():
    events, target = OutletEventAccessors(), Asset("x-delta://lake/target")
    task = AdvanceChangeStream(task_id="t", change_stream="cs", conn_id="lake", outlets=[target])
    answer = SimpleNamespace(change_stream=new_change_stream(0))
    task.__dict__["hook"] = SimpleNamespace(submit=lambda *_, **__: answer)

    result = task.execute({"outlet_events": events})

    assert list(task.outlets) == [target, ADVANCES]
    (event,) = events[ADVANCES].asset_alias_events
    assert event.dest_asset_key.uri == "cdc://lake/change-streams/cs"
    assert event.extra == {
        "change_stream": "cs",
        "captured_through": result["captured_through"],
        "partitions": 2,
    }


def test_consumption_outside_of_a_task_announces_nothing():
    announce({}, "lake", outcome(orders=2), [CONSUMPTIONS])


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (ConsumeStream, {"sql": "INSERT INTO t SELECT * FROM orders"}),
        (RecoverStream, {"target": "t", "key": "id"}),
    ],
)
def test_task_that_consumes_emits_the_events_of_its_job(operator, arguments, define_connection):
    target, events = Asset("x-delta://lake/target"), OutletEventAccessors()
    with DAG("d", schedule=None):
        task = operator(task_id="t", stream="orders", outlets=[target], **arguments)
    assert list(task.outlets) == [target, CONSUMPTIONS]

    hook = SimpleNamespace(submit=lambda *_, **__: Answer("r", outcome=outcome(orders=2)))
    task.__dict__["hook"] = hook
    task.__dict__["_check"] = lambda _: None
    context = {
        "ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1),
        "outlet_events": events,
    }
    result = task.execute(context)

    assert result["consumption_id"] == "c"
    assert len(events[CONSUMPTIONS].asset_alias_events) == 1
    assert events[target].extra["consumed"][0]["stream"] == "orders"
