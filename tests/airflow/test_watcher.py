"""The watcher of streams, driven by the shared streams of a real triggerer."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from types import SimpleNamespace

import pytest
from airflow.triggers.shared_stream import SharedStreamManager
from streams import add_file, offset_at, quiet_stream

from airflow_provider_cdc.assets.stream import stream_asset
from airflow_provider_cdc.engine.catalog.log_glances import LogGlances
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change
from airflow_provider_cdc.engine.storage.sources.newest_versions import NewestVersions
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.triggers import glancing, stream_polls, threads, watcher
from airflow_provider_cdc.triggers.watcher import StreamWatcherTrigger

NOW = datetime.now(UTC)


class Store(dict):
    """The state stores of assets, as a triggerer passes them to a trigger."""

    def __getitem__(self, asset):
        async def aget(key, default=None):
            return json.loads(self.get((asset.name, key), json.dumps(default)))

        async def aset(key, value):
            super(Store, self).__setitem__((asset.name, key), json.dumps(value))

        return SimpleNamespace(aget=aget, aset=aset)


class Triggerer:
    """Runs watchers as the triggerer does; an event is in Airflow's database after ``persist``."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.events: list[dict] = []
        self._unconfirmed: list[int] = []
        self._manager = SharedStreamManager()
        self._tasks: list[asyncio.Task] = []

    def watch(self, stream: str, **fields) -> None:
        trigger = trigger_on(stream, **fields)
        trigger.asset_state_store = self.store
        self._tasks.append(asyncio.create_task(self._run(len(self._tasks), trigger)))

    async def _run(self, trigger_id: int, trigger: StreamWatcherTrigger) -> None:
        key = trigger.shared_stream_key()
        polls = self._manager.subscribe(trigger_id=trigger_id, trigger=trigger, key=key)
        async for event in trigger.filter_shared_stream(polls):
            self._unconfirmed.append(
                self._manager.bind_pending_event(trigger_id=trigger_id, key=key)
            )
            self.events.append(event.payload)

    def persist(self) -> None:
        self._manager.confirm_persisted(self._unconfirmed)
        self._unconfirmed.clear()

    async def wait(self, count: int) -> list[dict]:
        """The events, once there are ``count`` of them."""
        async with asyncio.timeout(20):
            while len(self.events) < count:
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.01)
        return self.events

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._manager.stop_all()


OFTEN, NEVER = timedelta(seconds=0.02), timedelta(hours=1)


def trigger_on(
    stream: str,
    *,
    repeat_after: timedelta = timedelta(hours=1),
    poll_interval: timedelta = OFTEN,
    **fields,
):
    asset = stream_asset(stream, poll_interval=poll_interval, repeat_after=repeat_after, **fields)
    return asset.watchers[0].trigger


@asynccontextmanager
async def triggerer(store: Store, *streams: str, **fields):
    """A triggerer that watches ``streams`` from its start."""
    running = Triggerer(store)
    try:
        for stream in streams:
            running.watch(stream, **fields)
        yield running
    finally:
        await running.stop()


@pytest.fixture
def folder(tmp_path, define_connection):
    """A connection with two streams without data: ``s``, and ``witness``, whose wake shows that all
    watchers have polled since its commit.
    """
    define_connection("cdc_default", "cdc", state=str(tmp_path / "state"))
    for name in ("s", "witness"):
        add_stream(tmp_path, name)
    return tmp_path


def add_stream(folder, name):
    return quiet_stream(folder / "state", folder / name, name, NOW)


def test_new_data_wakes_once_and_rearranged_files_do_not(folder):
    async def scenario():
        async with triggerer(Store(), "s", "witness") as running:
            add_file(folder / "s", 1, NOW)
            await running.wait(1)
            add_file(folder / "s", 2, NOW, data_change=False)
            add_file(folder / "witness", 1, NOW)
            await running.wait(2)
            add_file(folder / "s", 3, NOW)
            return await running.wait(3)

    events = asyncio.run(scenario())
    assert [(event["stream"], event["data_version"]) for event in events] == [
        ("s", 1),
        ("witness", 1),
        ("s", 3),
    ]


def test_data_left_by_a_batch_wakes_again(folder):
    add_file(folder / "s", 1, NOW)
    add_file(folder / "s", 2, NOW)

    async def scenario():
        async with triggerer(Store(), "s") as running:
            await running.wait(1)
            consume(folder, through=1)
            return await running.wait(2)

    events = asyncio.run(scenario())
    assert [event["offset_version"] for event in events] == [0, 1]
    assert [event["data_version"] for event in events] == [2, 2]


def consume(folder, *, through):
    """Move the offset of ``s`` as a consumption in batches does."""
    registry = Registry(str(folder / "state"))
    snapshot = registry.snapshot()
    stream = snapshot.get("s")
    base = replace(stream.bases[0], offset=offset_at(folder / "s", through))
    changes = [Change(replace(stream, bases=(base,)), Transition.ADVANCED)]
    registry.transact(snapshot, changes, actor="tests")


def test_data_that_comes_back_by_a_rewind_wakes_again(folder, monkeypatch):
    add_file(folder / "s", 1, NOW)
    listed = []
    list_streams = StreamCatalog.list_streams_if_begun

    def listing(catalog):
        found = list_streams(catalog)
        listed.append(len(found))
        return found

    async def polled_since():
        """Wait for a poll that began after this call, and is settled."""
        async with asyncio.timeout(20):
            seen = len(listed)
            while len(listed) < seen + 3:
                await asyncio.sleep(0.01)

    monkeypatch.setattr(StreamCatalog, "list_streams_if_begun", listing)

    async def scenario():
        async with triggerer(Store(), "s", "witness") as running:
            await running.wait(1)
            consume(folder, through=1)
            await polled_since()
            add_file(folder / "witness", 1, NOW)
            await running.wait(2)
            consume(folder, through=0)
            return await running.wait(3)

    events = asyncio.run(scenario())
    assert [(event["stream"], event["data_version"]) for event in events] == [
        ("s", 1),
        ("witness", 1),
        ("s", 1),
    ]


def test_data_that_still_waits_does_not_wake_again_after_a_failed_probe(folder, monkeypatch):
    add_file(folder / "s", 1, NOW)
    look_at, failing = StreamCatalog.probe_of, []

    def unreliable(catalog, stream):
        if stream.name in failing:
            failing.remove(stream.name)
            raise OSError("the store is away")
        return look_at(catalog, stream)

    monkeypatch.setattr(StreamCatalog, "probe_of", unreliable)

    async def scenario():
        async with triggerer(Store(), "s", "witness") as running:
            await running.wait(1)
            failing.append("s")
            while failing:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            add_file(folder / "witness", 1, NOW)
            return await running.wait(2)

    assert [event["stream"] for event in asyncio.run(scenario())] == ["s", "witness"]


def test_restarted_triggerer_repeats_no_persisted_event(folder):
    store = Store()
    add_file(folder / "s", 1, NOW)

    async def scenario():
        async with triggerer(store, "s") as running:
            await running.wait(1)
            running.persist()
            async with asyncio.timeout(20):
                while not store:
                    await asyncio.sleep(0.01)
        async with triggerer(store, "s", "witness") as running:
            add_file(folder / "witness", 1, NOW)
            return await running.wait(1)

    events = asyncio.run(scenario())
    assert [event["stream"] for event in events] == ["witness"]


def test_triggerer_that_dies_before_its_event_persists_fires_it_again(folder):
    store = Store()
    add_file(folder / "s", 1, NOW)

    async def scenario():
        async with triggerer(store, "s", "witness") as running:
            await running.wait(1)
            # A later poll of all watchers succeeds; only the database has not confirmed the event.
            add_file(folder / "witness", 1, NOW)
            await running.wait(2)
        assert store == {}
        async with triggerer(store, "s") as running:
            return await running.wait(1)

    (event,) = asyncio.run(scenario())
    assert (event["stream"], event["data_version"]) == ("s", 1)


def test_data_committed_while_no_triggerer_runs_still_wakes(folder):
    store = Store()
    add_file(folder / "s", 1, NOW)

    async def scenario():
        async with triggerer(store, "s") as running:
            await running.wait(1)
            running.persist()
        add_file(folder / "s", 2, NOW)
        async with triggerer(store, "s") as running:
            return await running.wait(1)

    (event,) = asyncio.run(scenario())
    assert event["data_version"] == 2


def test_data_that_waits_longer_than_repeat_after_wakes_again(folder, monkeypatch):
    times = iter(NOW + timedelta(minutes=40 * step) for step in range(1_000_000))
    monkeypatch.setattr(watcher, "utc_now", lambda: next(times))
    add_file(folder / "s", 1, NOW)

    async def scenario():
        async with triggerer(Store()) as running:
            running.watch("s", repeat_after=timedelta(hours=1))
            return await running.wait(2)

    first, second = asyncio.run(scenario())[:2]
    assert first == second


def wakes_before_and_after_a_commit(folder, version):
    """The first wake of "s", and the next wake after a commit to "s" and to another stream."""

    async def scenario():
        async with triggerer(Store(), "s", "witness") as running:
            await running.wait(1)
            # The commit matters because a message may name the newest version.
            add_file(folder / "s", version, NOW)
            add_file(folder / "witness", 1, NOW)
            return await running.wait(2)

    return asyncio.run(scenario())


def test_stream_that_cannot_be_read_wakes_once_and_reports_why(folder):
    add_file(folder / "s", 2, NOW)  # version 1 is missing

    first, second = wakes_before_and_after_a_commit(folder, 3)

    assert (first["stream"], second["stream"]) == ("s", "witness")
    assert "version 1 is missing" in first["problem"]
    assert second["problem"] is None


def test_stream_that_may_not_be_read_wakes_once_and_reports_why(folder):
    catalog = StreamCatalog(str(folder / "state"), principal="somebody")
    catalog.alter_stream("s", readers=["somebody else"])
    add_file(folder / "s", 1, NOW)

    first, second = wakes_before_and_after_a_commit(folder, 2)

    assert (first["stream"], second["stream"]) == ("s", "witness")
    assert "may not read it" in first["problem"]


def test_unreachable_registry_is_reported_once_and_watched_when_reachable(folder, caplog):
    state, away = folder / "state", folder / "away"

    def warnings():
        return [record for record in caplog.records if "no registry" in record.getMessage()]

    async def reports(count):
        async with asyncio.timeout(20):
            while len(warnings()) < count:
                await asyncio.sleep(0.01)

    async def scenario():
        async with triggerer(Store(), "s") as running:
            for count in (1, 2):
                state.rename(away)
                await reports(count)
                # Wait for some more polls.
                await asyncio.sleep(0.3)
                assert len(warnings()) == count
                away.rename(state)
                add_file(folder / "s", count, NOW)
                await running.wait(count)

    asyncio.run(scenario())


def test_stream_that_is_created_later_wakes(folder):
    async def scenario():
        async with triggerer(Store(), "Late", "witness") as running:
            add_file(folder / "witness", 1, NOW)
            await running.wait(1)
            add_stream(folder, "late")
            add_file(folder / "late", 1, NOW)
            return await running.wait(2)

    assert [event["stream"] for event in asyncio.run(scenario())] == ["witness", "late"]


def test_watcher_that_joins_late_is_woken_by_waiting_data(folder):
    add_file(folder / "s", 1, NOW)
    add_file(folder / "witness", 1, NOW)

    async def scenario():
        async with triggerer(Store(), "s") as running:
            await running.wait(1)
            running.watch("witness")
            return await running.wait(2)

    assert [event["stream"] for event in asyncio.run(scenario())] == ["s", "witness"]


def test_one_poll_and_one_probe_serve_all_watchers_of_a_stream(folder, monkeypatch):
    add_file(folder / "s", 1, NOW)
    polls, looks = [], []
    show, look_at = StreamCatalog.list_streams_if_begun, StreamCatalog.probe_of

    def counted_show(catalog):
        polls.append(catalog)
        return show(catalog)

    def counted_look(catalog, stream):
        looks.append(len(polls))
        return look_at(catalog, stream)

    monkeypatch.setattr(StreamCatalog, "list_streams_if_begun", counted_show)
    monkeypatch.setattr(StreamCatalog, "probe_of", counted_look)

    async def scenario():
        async with triggerer(Store(), "s") as running:
            running.watch("s", repeat_after=timedelta(hours=2))
            await running.wait(2)

    asyncio.run(scenario())
    assert len(looks) == len(set(looks))
    assert len(set(map(id, polls))) == 1


def test_poll_that_fails_is_retried_with_the_current_connection(folder, monkeypatch):
    add_file(folder / "s", 1, NOW)
    failures = iter([OSError("the store is away"), OSError("still away")])
    asettings = CdcHook.asettings

    async def unreliable(conn_id):
        for failure in failures:
            raise failure
        return await asettings(conn_id)

    monkeypatch.setattr(CdcHook, "asettings", unreliable)

    async def scenario():
        async with triggerer(Store(), "s") as running:
            return await running.wait(1)

    (event,) = asyncio.run(scenario())
    assert event["stream"] == "s"


def test_connection_that_is_edited_is_watched_at_its_new_state_folder(folder, define_connection):
    async def scenario():
        async with triggerer(Store(), "s", "witness") as running:
            add_file(folder / "witness", 1, NOW)
            await running.wait(1)
            define_connection("cdc_default", "cdc", state=str(folder / "moved"))
            quiet_stream(folder / "moved", folder / "another", "s", NOW)
            add_file(folder / "another", 1, NOW)
            return await running.wait(2)

    assert [event["stream"] for event in asyncio.run(scenario())] == ["witness", "s"]


def test_probe_that_hangs_delays_others_of_its_connection_only_briefly(folder, monkeypatch):
    monkeypatch.setattr(stream_polls, "_PATIENCE_SECONDS", 0.05)
    hanging, look_at = Event(), StreamCatalog.probe_of

    def look(catalog, stream):
        if stream.name == "s":
            hanging.wait(20)
        return look_at(catalog, stream)

    monkeypatch.setattr(StreamCatalog, "probe_of", look)

    async def scenario():
        async with triggerer(Store(), "s", "witness") as running:
            add_file(folder / "witness", 1, NOW)
            await running.wait(1)
            add_file(folder / "witness", 2, NOW)
            events = await running.wait(2)
            hanging.set()
            return events

    assert [event["data_version"] for event in asyncio.run(scenario())] == [1, 2]


def test_probes_that_hang_delay_no_probe_of_other_connections(
    folder, define_connection, monkeypatch
):
    monkeypatch.setattr(threads, "_AT_ONCE", 1)
    monkeypatch.setattr(threads, "_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(stream_polls, "_PATIENCE_SECONDS", 0.05)
    define_connection("cdc_other", "cdc", state=str(folder / "other"))
    names = [f"h{number}" for number in range(40)]
    for name in names:
        add_stream(folder, name)
    quiet_stream(folder / "other", folder / "healthy", "healthy", NOW)
    add_file(folder / "healthy", 1, NOW)
    released, begun, look_at = Event(), [], StreamCatalog.probe_of

    def look(catalog, stream):
        if stream.name in names:
            begun.append(stream.name)
            released.wait(20)
        return look_at(catalog, stream)

    monkeypatch.setattr(StreamCatalog, "probe_of", look)

    async def scenario():
        async with triggerer(Store(), *names) as running:
            while len(begun) < len(names):
                await asyncio.sleep(0.01)
            running.watch("healthy", conn_id="cdc_other")
            try:
                return [event["stream"] for event in await running.wait(1)]
            finally:
                released.set()

    assert asyncio.run(scenario()) == ["healthy"]
    # A stream is not checked again while an earlier check of it runs.
    assert sorted(begun) == sorted(names)


def probed(monkeypatch) -> list[str]:
    """The streams whose probes have ended from now on."""
    found, look_at = [], StreamCatalog.probe_of

    def look(catalog, stream):
        try:
            return look_at(catalog, stream)
        finally:
            # A commit after this moment is not the one that the probe has seen.
            found.append(stream.name)

    monkeypatch.setattr(StreamCatalog, "probe_of", look)
    return found


async def until_probed(found: list[str], count: int) -> None:
    async with asyncio.timeout(20):
        while len(found) < count:
            await asyncio.sleep(0.01)


def test_commit_between_two_polls_wakes_at_once_and_probes_no_other(folder, monkeypatch):
    found = probed(monkeypatch)

    async def scenario():
        async with triggerer(Store(), "s", "witness", poll_interval=NEVER) as running:
            await until_probed(found, 2)
            add_file(folder / "s", 1, NOW)
            await running.wait(1)
            add_file(folder / "s", 2, NOW)
            return await running.wait(2)

    events = asyncio.run(scenario())
    assert [(event["stream"], event["data_version"]) for event in events] == [("s", 1), ("s", 2)]
    assert found.count("witness") == 1


def test_commit_during_a_poll_wakes_although_no_poll_follows(folder, monkeypatch):
    # The commit comes after the look and after the probe of the same poll.
    look_at, committed = StreamCatalog.probe_of, []

    def look(catalog, stream):
        answer = look_at(catalog, stream)
        if not committed:
            committed.append(stream.name)
            add_file(folder / "s", 1, NOW)
        return answer

    monkeypatch.setattr(StreamCatalog, "probe_of", look)

    async def scenario():
        async with triggerer(Store(), "s", poll_interval=NEVER) as running:
            return await running.wait(1)

    (event,) = asyncio.run(scenario())
    assert event["data_version"] == 1


def test_stream_that_is_created_between_two_polls_wakes(folder, monkeypatch):
    found = probed(monkeypatch)

    async def scenario():
        async with triggerer(Store(), "late", "witness", poll_interval=NEVER) as running:
            await until_probed(found, 1)
            add_stream(folder, "late")
            add_file(folder / "late", 1, NOW)
            return await running.wait(1)

    assert [event["stream"] for event in asyncio.run(scenario())] == ["late"]


def test_data_left_by_a_batch_between_two_polls_wakes_again(folder):
    add_file(folder / "s", 1, NOW)
    add_file(folder / "s", 2, NOW)

    async def scenario():
        async with triggerer(Store(), "s", poll_interval=NEVER) as running:
            await running.wait(1)
            consume(folder, through=1)
            return await running.wait(2)

    assert [event["offset_version"] for event in asyncio.run(scenario())] == [0, 1]


def test_glances_that_fail_delay_a_wake_only_until_they_succeed(folder, monkeypatch):
    found, look_at, failures = probed(monkeypatch), LogGlances.glance, [OSError("away")] * 3

    def glance(glances, streams):
        if failures:
            raise failures.pop()
        return look_at(glances, streams)

    monkeypatch.setattr(LogGlances, "glance", glance)

    async def scenario():
        async with triggerer(Store(), "s", poll_interval=NEVER) as running:
            await until_probed(found, 1)
            add_file(folder / "s", 1, NOW)
            return await running.wait(1)

    assert [event["stream"] for event in asyncio.run(scenario())] == ["s"]
    assert not failures


def test_glance_that_hangs_stops_no_poll(folder, monkeypatch):
    monkeypatch.setattr(glancing, "_PATIENCE_SECONDS", 0.05)
    hanging = Event()
    monkeypatch.setattr(LogGlances, "sources", lambda glances, streams: hanging.wait(20))

    async def scenario():
        async with triggerer(Store(), "s", poll_interval=timedelta(seconds=0.5)) as running:
            await asyncio.sleep(0.2)
            add_file(folder / "s", 1, NOW)
            await running.wait(1)
            add_file(folder / "s", 2, NOW)
            events = await running.wait(2)
            assert not hanging.is_set()
            hanging.set()
            return events

    assert [event["data_version"] for event in asyncio.run(scenario())] == [1, 2]


def test_source_that_cannot_be_reached_delays_no_wake_of_another(folder, monkeypatch):
    found, newest = probed(monkeypatch), NewestVersions.of_stream

    def unreliable(versions, stream):
        if stream.name == "witness":
            raise OSError("the store is away")
        return newest(versions, stream)

    monkeypatch.setattr(NewestVersions, "of_stream", unreliable)

    async def scenario():
        async with triggerer(Store(), "s", "witness", poll_interval=NEVER) as running:
            await until_probed(found, 2)
            add_file(folder / "s", 1, NOW)
            return await running.wait(1)

    assert [event["stream"] for event in asyncio.run(scenario())] == ["s"]


def test_probe_that_failed_is_repeated_when_any_log_grows(folder, monkeypatch):
    add_file(folder / "s", 1, NOW)
    look_at, failures = StreamCatalog.probe_of, [OSError("the store is away")]

    def look(catalog, stream):
        if stream.name == "s" and failures:
            raise failures.pop()
        return look_at(catalog, stream)

    monkeypatch.setattr(StreamCatalog, "probe_of", look)

    async def scenario():
        async with triggerer(Store(), "s", "witness", poll_interval=NEVER) as running:
            async with asyncio.timeout(20):
                while failures:
                    await asyncio.sleep(0.01)
            add_file(folder / "witness", 1, NOW)
            return await running.wait(2)

    assert {event["stream"] for event in asyncio.run(scenario())} == {"s", "witness"}


def test_watcher_without_a_shared_poll_fires_too(folder):
    add_file(folder / "s", 1, NOW)

    async def first():
        events = trigger_on("s").run()
        try:
            return (await anext(events)).payload
        finally:
            await events.aclose()

    assert asyncio.run(first()) == {
        "stream": "s",
        "stream_id": "id of s",
        "offset_version": 0,
        "data_version": 1,
        "problem": None,
    }


def test_wake_stored_in_the_format_of_an_older_version_is_ignored(folder):
    store = Store()
    add_file(folder / "s", 1, NOW)

    async def scenario():
        for kept in ("text", ["a"], {"wake": {"x": 1}, "at": "2026-01-01T00:00:00+00:00"}, {}):
            await store[SimpleNamespace(name="cdc://cdc_default/s")].aset("cdc.fired", kept)
            async with triggerer(store, "s") as running:
                await running.wait(1)

    asyncio.run(scenario())


def test_trigger_serialised_is_pinned():
    path, arguments = trigger_on("S").serialize()

    assert path == "airflow_provider_cdc.triggers.watcher.StreamWatcherTrigger"
    assert arguments == {
        "stream": "s",
        "conn_id": "cdc_default",
        "asset": "cdc://cdc_default/s",
        "poll_interval": 0.02,
        "repeat_after": 3600.0,
    }
    assert StreamWatcherTrigger(**arguments).serialize() == (path, arguments)
