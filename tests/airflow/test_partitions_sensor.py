"""How the sensor of partitions waits and fails, in a worker and in a triggerer alike."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout
from partitions import new_change_stream
from streams import new_stream, register
from waiting_sensors import ended as run_to_its_end

from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.core.errors import StreamStale
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.change_streams import ChangeStreams
from airflow_provider_cdc.sensors.change_streams import PartitionsReadySensor
from airflow_provider_cdc.triggers.change_streams import PartitionsReadyTrigger

STALE = StreamStale("consumer c", "is stale", cause="it is slow", fix="begin again")
AWAY = OSError("the store is away")
CONTEXT = {"ti": SimpleNamespace(dag_id="d", run_id="r")}
MODES = pytest.mark.parametrize("deferrable", [False, True])


@pytest.fixture
def state(tmp_path, define_connection):
    """A state folder with a change stream ``cs``, without Spark."""
    state = tmp_path / "state"
    define_connection("cdc_default", "cdc", state=str(state))
    register(state, new_stream())
    ChangeStreams(str(state), Files()).create(new_change_stream(1_000), None)
    return state


@pytest.fixture
def counts(state, monkeypatch):
    """Sets what each check of ``cs`` counts or raises, and holds for whom each was made."""
    asked = []

    def script(*given):
        left = list(given)

        def ready_partitions(catalog, name, consumer, *, start_timestamp, holder):
            asked.append((name, consumer, start_timestamp, holder))
            now = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(now, Exception):
                raise now
            return now

        monkeypatch.setattr(ChangeStreamCatalog, "ready_partitions", ready_partitions)
        return asked

    return script


def ended(change_stream="cs", **fields):
    given = {"poke_interval": 0.01, "timeout": 5} | fields
    return run_to_its_end(
        lambda: PartitionsReadySensor(
            task_id="wait", change_stream=change_stream, consumer="c", **given
        ),
        CONTEXT,
    )


@MODES
def test_partitions_sensor_waits_until_something_can_be_read(counts, deferrable):
    asked = counts(0, 0, 2)

    found = ended(deferrable=deferrable, start_timestamp="2026-01-01T00:00:00Z")

    assert found == {"change_stream": "cs", "consumer": "c", "partitions": 2}
    assert asked == [("cs", "c", "2026-01-01T00:00:00Z", "d/r")] * 3


@MODES
def test_partitions_sensor_of_a_missing_change_stream_fails_at_once(state, deferrable):
    with pytest.raises(AirflowFailException, match="change stream other: does not exist"):
        ended("other", deferrable=deferrable)


@MODES
@pytest.mark.parametrize("before", [(), (0,)], ids=["at_once", "later"])
def test_partitions_sensor_of_a_stale_consumer_fails_at_once(counts, deferrable, before):
    counts(*before, STALE, 2)

    with pytest.raises(AirflowFailException, match="consumer c: is stale"):
        ended(deferrable=deferrable)


def test_deferred_partitions_sensor_names_what_did_not_come(counts):
    counts(0)

    with pytest.raises(AirflowSensorTimeout, match="consumer c: no partition of cs to read for"):
        ended(deferrable=True, timeout=0.3)


def test_deferred_partitions_sensor_keeps_waiting_for_its_store(counts):
    counts(0, AWAY, AWAY, 1)

    assert ended(deferrable=True)["partitions"] == 1


def test_deferred_partitions_sensor_keeps_waiting_for_its_folder(state, tmp_path):
    given = PartitionsReadyTrigger(
        change_stream="cs",
        consumer="c",
        start_timestamp=None,
        holder="d/r",
        conn_id="cdc_default",
        poll_interval=0.01,
        waiting_since="2026-01-01T00:00:00+00:00",
    )
    _, arguments = given.serialize()
    events = PartitionsReadyTrigger(**arguments).run()
    away = state.rename(tmp_path / "away")

    async def first_event():
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.3)
        assert not first.done()
        away.rename(state)
        ChangeStreams(str(state), Files()).update("cs", lambda known: known.dropped())
        return (await first).payload

    event = asyncio.run(first_event())
    assert (event["status"], event["retryable"]) == ("failed", False)
    assert event.items() >= {"change_stream": "cs", "consumer": "c"}.items()
