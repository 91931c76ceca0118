"""How the sensor of streams waits and fails, in a worker and in a triggerer alike."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferralError,
    TaskDeferred,
)
from airflow.triggers.base import TaskSuccessEvent
from streams import NOON, add_file, quiet_stream
from waiting_sensors import ended as run_to_its_end

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.errors import StreamConflict, StreamNotFound
from airflow_provider_cdc.engine.storage.sources.source_log import StreamProbe
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor
from airflow_provider_cdc.triggers.stream import StreamHasDataTrigger

QUIET = StreamProbe(0, 0, False, 0)
DATA = StreamProbe(0, 1, True, 1)
MISSING = StreamNotFound("stream s", "does not exist", cause="none", fix="create it")
BUSY = StreamConflict("stream s", "was moved", cause="another consumer", fix="try again")
AWAY = OSError("the store is away")


@pytest.fixture
def stream(tmp_path, define_connection):
    """A quiet stream ``s``, without Spark."""
    define_connection("cdc_default", "cdc", state=str(tmp_path / "state"))
    return quiet_stream(tmp_path / "state", tmp_path / "s", "s", NOON)


@pytest.fixture
def looks(stream, monkeypatch):
    """Sets what each check of ``s`` returns or raises; the last one repeats for ever."""

    def script(*given):
        left = list(given)

        def look_at(catalog, found):
            now = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(now, Exception):
                raise now
            return now

        monkeypatch.setattr(StreamCatalog, "probe_of", look_at)

    return script


def sensor(**fields) -> StreamHasDataSensor:
    given = {"poke_interval": 0.01, "timeout": 5} | fields
    return StreamHasDataSensor(task_id="wait", stream="s", **given)


def ended(context=None, **fields):
    return run_to_its_end(lambda: sensor(**fields), {} if context is None else context)


MODES = pytest.mark.parametrize("deferrable", [False, True])


@MODES
@pytest.mark.parametrize("before", [(), (QUIET,)], ids=["at_once", "later"])
@pytest.mark.parametrize(
    ("failure", "fields", "end"),
    [
        (MISSING, {}, AirflowFailException),
        (MISSING, {"soft_fail": True}, AirflowSkipException),
        (MISSING, {"never_fail": True}, AirflowSkipException),
        (MISSING, {"silent_fail": True}, AirflowFailException),
        (BUSY, {}, CdcJobFailed),
        (BUSY, {"soft_fail": True}, CdcJobFailed),
        (BUSY, {"never_fail": True}, AirflowSkipException),
    ],
)
def test_sensor_that_fails_ends_as_configured(looks, deferrable, before, failure, fields, end):
    looks(*before, failure, DATA)

    with pytest.raises(end) as raised:
        ended(deferrable=deferrable, **fields)
    assert type(raised.value) is end


@MODES
@pytest.mark.parametrize(
    ("fields", "end"),
    [({}, OSError), ({"soft_fail": True}, OSError), ({"never_fail": True}, AirflowSkipException)],
)
def test_sensor_that_cannot_reach_the_store_ends_as_configured(looks, deferrable, fields, end):
    looks(AWAY, DATA)

    with pytest.raises(end):
        ended(deferrable=deferrable, **fields)


@MODES
@pytest.mark.parametrize("failure", [AWAY, BUSY])
@pytest.mark.parametrize("before", [(), (QUIET,)], ids=["at_once", "later"])
def test_sensor_that_fails_silently_keeps_waiting(looks, deferrable, failure, before):
    looks(*before, failure, DATA)

    assert ended(deferrable=deferrable, silent_fail=True)["latest_version"] == 1


@MODES
@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({}, AirflowSensorTimeout),
        ({"soft_fail": True}, AirflowSkipException),
        ({"never_fail": True}, AirflowSensorTimeout),
    ],
)
def test_sensor_that_times_out_ends_as_configured(looks, deferrable, fields, end):
    looks(QUIET)

    with pytest.raises(end):
        ended(deferrable=deferrable, timeout=0.3, **fields)


def test_exact_sensor_that_is_skipped_by_its_timeout_ends_its_job(looks, monkeypatch):
    looks(DATA)
    submitted, killed = [], []

    def submit(hook, task, *, context):
        submitted.append(hook)
        raise AirflowTaskTimeout("execution_timeout")

    def kill(hook):
        killed.append(hook)

    monkeypatch.setattr(CdcHook, "submit", submit)
    monkeypatch.setattr(CdcHook, "kill", kill)

    with pytest.raises(AirflowSkipException):
        sensor(deferrable=True, exact=True, soft_fail=True).execute({})
    assert killed == submitted
    assert len(killed) == 1


def test_deferred_sensor_keeps_waiting_while_the_store_is_unreachable(looks):
    looks(QUIET, AWAY, AWAY, DATA)

    assert ended(deferrable=True)["latest_version"] == 1


def test_deferred_sensor_keeps_waiting_while_the_state_folder_is_missing(stream, tmp_path):
    trigger = StreamHasDataTrigger(
        stream="s",
        conn_id="cdc_default",
        poll_interval=0.01,
        waiting_since="2026-01-01T00:00:00+00:00",
    )
    state = tmp_path / "state"
    away = state.rename(tmp_path / "away")

    async def look_while_it_is_away():
        events = trigger.run()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.3)
        assert not first.done()
        away.rename(state)
        return await first

    add_file(tmp_path / "s", 1, NOON)
    event = asyncio.run(look_while_it_is_away())
    assert event.payload["status"] == "ready"


def deferred_trigger(**fields) -> StreamHasDataTrigger:
    """The trigger of a sensor that waits for a stream without data."""
    with pytest.raises(TaskDeferred) as raised:
        sensor(deferrable=True, poke_interval=3600, **fields).execute({})
    return raised.value.trigger


async def first_event(trigger: StreamHasDataTrigger, after=lambda: None, seconds: float = 0):
    """The first event of a trigger that runs ``seconds`` before ``after`` is called."""
    events = trigger.run()
    first = asyncio.ensure_future(anext(events))
    await asyncio.sleep(seconds)
    assert not first.done()
    after()
    async with asyncio.timeout(20):
        return await first


def test_deferred_sensor_fires_at_a_commit_between_two_checks(stream, tmp_path):
    event = asyncio.run(
        first_event(deferred_trigger(), lambda: add_file(tmp_path / "s", 1, NOON), seconds=1)
    )

    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms == {
        "return_value": {"stream": "s", "offset_version": 0, "latest_version": 1}
    }


def test_deferred_sensor_fires_at_a_commit_before_its_trigger_began(stream, tmp_path):
    trigger = deferred_trigger()
    add_file(tmp_path / "s", 1, NOON)

    event = asyncio.run(first_event(trigger))

    assert event.xcoms["return_value"]["latest_version"] == 1


def test_deferred_sensor_is_not_woken_by_rearranged_files_but_after_them(stream, tmp_path):
    async def scenario():
        events = deferred_trigger().run()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.5)
        add_file(tmp_path / "s", 1, NOON, data_change=False)
        await asyncio.sleep(1)
        assert not first.done()
        add_file(tmp_path / "s", 2, NOON)
        async with asyncio.timeout(20):
            return await first

    assert asyncio.run(scenario()).xcoms["return_value"]["latest_version"] == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"exact": True},
        {"outlets": [Asset("a")]},
        {"on_success_callback": print},
        {"post_execute": print},
        {"do_xcom_push": False},
        {"multiple_outputs": True},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_sensor_that_has_work_after_its_wait_is_resumed_by_a_worker(stream, tmp_path, fields):
    trigger = deferred_trigger(**fields)
    add_file(tmp_path / "s", 1, NOON)

    event = asyncio.run(first_event(trigger))

    assert not isinstance(event, TaskSuccessEvent)
    assert event.payload["status"] == "ready"


def test_sensor_whose_stream_is_dropped_is_resumed_to_fail(stream, tmp_path):
    with pytest.raises(TaskDeferred) as raised:
        sensor(deferrable=True).execute({})
    StreamCatalog(str(tmp_path / "state"), principal=stream.owner).drop_stream("s")

    event = asyncio.run(first_event(raised.value.trigger))

    assert event.payload["status"] == "failed"


def test_sensor_whose_triggerer_fails_is_skipped_only_with_never_fail(stream):
    failed = ("__fail__", {"error": "Trigger failure"}, {})

    with pytest.raises(TaskDeferralError):
        sensor(deferrable=True, soft_fail=True).resume_execution(*failed)
    with pytest.raises(AirflowSkipException):
        sensor(deferrable=True, never_fail=True).resume_execution(*failed)


class Store(dict):
    """The state store of a task."""

    def set(self, key, value):
        self[key] = value


@pytest.fixture
def checks(monkeypatch):
    """The exact checks that were made; the third one is the first to find a change."""
    made = []

    def submit(hook, task, *, context):
        made.append(task)
        return SimpleNamespace(has_data=len(made) > 2)

    monkeypatch.setattr(CdcHook, "submit", submit)
    return made


@pytest.mark.parametrize("mode", ["poke", "reschedule", "deferrable"])
def test_exact_sensor_checks_again_after_a_rewind_without_a_new_commit(looks, checks, mode):
    latest = StreamProbe(5, 7, True, 7)
    looks(latest, latest, latest, StreamProbe(3, 7, True, 7), StreamProbe(2, 7, True, 7))

    if mode == "reschedule":
        ti = SimpleNamespace(get_first_reschedule_date=lambda context: None)
        context, found = {"ti": ti, "task_state_store": Store()}, None
        while found is None:
            try:
                found = sensor(exact=True, mode=mode).execute(context)
            except AirflowRescheduleException:
                continue
    else:
        found = ended(exact=True, deferrable=mode == "deferrable")

    assert found == {"stream": "s", "offset_version": 2, "latest_version": 7}
    assert len(checks) == 3


def test_exact_sensor_checks_again_if_another_stream_takes_the_name(
    looks, checks, stream, tmp_path
):
    looks(DATA)
    wait = sensor(exact=True)
    assert not wait.poke({}).is_done
    assert not wait.poke({}).is_done
    assert len(checks) == 1
    catalog = StreamCatalog(str(tmp_path / "state"), principal=stream.owner)
    catalog.clone_stream("other", "s")
    catalog.drop_stream("s")
    catalog.rename_stream("other", "s")

    wait.poke({})

    assert len(checks) == 2


def test_trigger_of_an_older_version_ignores_its_state_and_fires(stream, tmp_path):
    add_file(tmp_path / "s", 1, NOON)
    trigger = StreamHasDataTrigger(
        stream="s",
        conn_id="cdc_default",
        poll_interval=0.01,
        waiting_since="2026-01-01T00:00:00+00:00",
        after_version=1,
    )

    async def fired():
        async with asyncio.timeout(5):
            return (await anext(trigger.run())).payload

    assert asyncio.run(fired())["latest_version"] == 1
