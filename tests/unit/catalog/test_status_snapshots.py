"""The status snapshot that a run of the monitor leaves in the state folder."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from streams import NOON, add_file, new_stream, offset_at, quiet_stream, register

from airflow_provider_cdc.engine.catalog import snapshot_writer, target_lines
from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.consumption.source_notes import TakenVersions
from airflow_provider_cdc.engine.core.model.alerts import Alert
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
)
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.monitoring.conditions import Condition
from airflow_provider_cdc.engine.core.monitoring.status_snapshot import StatusSnapshot, StreamLine
from airflow_provider_cdc.engine.core.shown_values import without_credentials
from airflow_provider_cdc.engine.core.verification.proof import VerificationState
from airflow_provider_cdc.engine.storage.delta.provenances import Provenances
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog
from airflow_provider_cdc.engine.storage.state.status_snapshots import StatusSnapshots
from airflow_provider_cdc.engine.storage.state.verifications import Verifications

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


class Site:
    """Streams on tables without Spark, and the time."""

    def __init__(self, root: Path) -> None:
        self.root, self.state, self.now = root, root / "state", NOON
        self.snapshots = StatusSnapshots(str(self.state), Files())

    def add(self, name: str, max_lag: timedelta | None = None) -> None:
        table = self.root / name
        add_file(table, 0, NOON, data_change=False)
        source = Source(f"lake.{name}", str(table), "a-table-id")
        offset = offset_at(table, 0)
        stream = new_stream(name, source=source, offset=offset, max_lag=max_lag)
        register(self.state, stream)

    def check(self, send: Callable[[Alert], object] = lambda _: None) -> StatusSnapshot:
        monitor = StreamMonitor(str(self.state), clock=lambda: self.now)
        monitor.run({"somebody": send}, margin=2 * DAY)
        found = self.snapshots.newest()
        assert found is not None
        return found

    def line(self, name: str = "s") -> StreamLine:
        return next(line for line in self.check().lines if line.name == name)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_snapshot_has_the_streams_sorted_by_trouble(site: Site) -> None:
    for name in ("quiet", "waits", "late", "broken", "waits_longer"):
        site.add(name, MINUTE if name == "late" else None)
    for name, minutes in (("waits", 2), ("waits_longer", 1), ("late", 1)):
        add_file(site.root / name, 1, NOON + minutes * MINUTE, 10)
    (site.root / "broken/_delta_log" / f"{0:020d}.json").unlink()
    site.now += 5 * MINUTE
    found = site.check()
    assert found.as_of == site.now
    assert [(line.name, line.condition) for line in found.lines] == [
        ("broken", Condition.STALE),
        ("late", Condition.LATE),
        ("waits_longer", Condition.WAITING),
        ("waits", Condition.WAITING),
        ("quiet", Condition.CURRENT),
    ]
    late = found.lines[1]
    assert (late.commits_behind, late.bytes_behind) == (1, 10)
    assert late.waiting_since == NOON + MINUTE
    assert late.problem is not None
    assert "max_lag is 1 minute" in late.problem


def test_condition_keeps_the_time_of_its_first_check(site: Site) -> None:
    site.add("s")
    assert site.line().condition_since == NOON
    site.now += MINUTE
    assert site.line().condition_since == NOON
    add_file(site.root / "s", 1, site.now)
    site.now += MINUTE
    assert site.line().condition_since == site.now


def test_snapshot_keeps_the_alerts_of_earlier_runs(site: Site) -> None:
    site.add("s", max_lag=MINUTE)
    add_file(site.root / "s", 1, NOON)
    site.now += 2 * MINUTE
    assert [alert.kind for alert in site.check().alerts] == ["breach"]
    StreamCatalog(str(site.state), principal="somebody", clock=lambda: site.now).advance_stream("s")
    site.now += MINUTE
    assert [alert.kind for alert in site.check().alerts] == ["recovery", "breach"]


def test_stream_whose_check_fails_is_shown_as_unreachable(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("s")
    site.add("hangs")
    Verifications(str(site.state), Files()).save(
        VerificationState("id of hangs", "lake.copy", None, 0, NOON, 0, 0)
    )
    observe = StreamMonitor._observe

    def fail(self: StreamMonitor, stream: object, known: object) -> object:
        if getattr(stream, "name", "") == "hangs":
            raise TimeoutError("no answer")
        return observe(self, stream, known)  # type: ignore[arg-type]

    monkeypatch.setattr(StreamMonitor, "_observe", fail)
    with pytest.raises(ExceptionGroup):
        site.check()
    found = site.snapshots.newest()
    assert found is not None
    assert [(line.name, line.condition, line.problem) for line in found.lines] == [
        ("hangs", Condition.UNREACHABLE, "TimeoutError: no answer"),
        ("s", Condition.CURRENT, None),
    ]
    assert found.lines[0].commits_behind is None
    assert [check.target for check in found.lines[0].verifications] == ["lake.copy"]


def test_monitor_whose_snapshot_fails_sends_its_alerts(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site.add("s", max_lag=MINUTE)
    add_file(site.root / "s", 1, NOON)
    site.now += 2 * MINUTE

    def refuse(*_: object) -> None:
        raise PermissionError("read only")

    monkeypatch.setattr(snapshot_writer.StatusSnapshots, "save", refuse)
    sent = StreamMonitor(str(site.state), clock=lambda: site.now).run({"one": print}, margin=DAY)
    assert [alert.kind for alert in sent] == ["breach"]
    assert "the status snapshot: read only" in caplog.text


def test_snapshot_says_what_else_cannot_be_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("s")

    def refuse(_: object) -> None:
        raise PermissionError("forbidden")

    monkeypatch.setattr(ChangeStreamCatalog, "change_stream_lines", refuse)
    found = site.check()
    assert found.omitted == ("the change streams: PermissionError: forbidden",)
    assert [line.name for line in found.lines] == ["s"]


def test_damaged_snapshot_is_replaced_by_the_next_run(site: Site) -> None:
    site.add("s")
    site.check()
    for content in (b"", b"{}", gzip.compress(b"{}"), gzip.compress(b"[" * 50)[:20]):
        for file in (site.state / "status").iterdir():
            file.write_bytes(content)
        assert site.snapshots.newest() is None
        assert site.snapshots.history().points == {}
        assert [line.name for line in site.check().lines] == ["s"]


def test_folder_without_a_monitor_has_no_snapshot(tmp_path: Path) -> None:
    quiet_stream(tmp_path / "state", tmp_path / "t", "s")
    snapshots = StatusSnapshots(str(tmp_path / "state"), Files())
    assert snapshots.newest() is None
    assert snapshots.history().points == {}


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/data/a b?c", "/data/a b?c"),
        ("s3a://bucket/t", "s3a://bucket/t"),
        ("s3a://user:secret@bucket/t", "s3a://bucket/t"),
        ("abfss://container@account/t", "abfss://container@account/t"),
        ("https://store/t?sig=secret", "https://store/t"),
    ],
)
def test_location_shows_no_credentials(location: str, shown: str) -> None:
    assert without_credentials(location) == shown


def consume(site: Site, target: Path, version: int, through: int) -> None:
    """Commit a statement to a target, and its consumption to the registry."""
    add_file(target, version, site.now, taken=[TakenVersions("s", "lake.s", "i", -1, through)])
    written = StatementOutcome(
        0, "lake.copy", StatementResult.APPLIED, version, location=str(target)
    )
    registry = Registry(str(site.state), clock=lambda: site.now)
    snapshot = registry.snapshot()
    stream = replace(snapshot.get("s"), last_outcome=Outcome("c", "me", (), (written,), 1.0))
    registry.transact(snapshot, [Change(stream, Transition.COMMITTED)], actor="me")


def held(site: Site) -> list[tuple[str, int, list[int]]]:
    return [
        (
            line.target,
            line.provenance.version,
            [each.through_version for each in line.provenance.sources],
        )
        for line in site.check().targets
    ]


def test_snapshot_has_the_source_versions_of_targets(site: Site) -> None:
    site.add("s")
    assert held(site) == []
    target = site.root / "copy"
    consume(site, target, 0, 5)
    assert held(site) == [("lake.copy", 0, [5])]
    consume(site, target, 1, 9)
    add_file(target, 2, site.now)
    assert held(site) == [("lake.copy", 2, [9])]
    assert site.check().targets[0].provenance.unknown_versions == (2,)


def test_target_that_no_consumption_wrote_since_is_not_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("s")
    consume(site, site.root / "copy", 0, 5)
    assert held(site) == [("lake.copy", 0, [5])]
    monkeypatch.delattr(Provenances, "newest")
    assert held(site) == [("lake.copy", 0, [5])]


@pytest.mark.parametrize(
    ("folder", "is_shown"), [("state_of_sales/copy", True), ("state/results/r", False)]
)
def test_tables_of_the_state_folder_are_no_targets(site: Site, folder: str, is_shown: bool) -> None:
    site.add("s")
    consume(site, site.root / folder, 0, 5)
    assert bool(held(site)) is is_shown


def test_target_with_a_long_log_shows_its_newest_commits(site: Site) -> None:
    site.add("s")
    target = site.root / "copy"
    for version in range(30):
        add_file(target, version, site.now)
    consume(site, target, 30, 5)
    (line,) = site.check().targets
    assert line.provenance.since_version == 11
    assert line.provenance.unknown_versions == tuple(range(11, 30))


def test_target_that_was_made_again_begins_anew(site: Site) -> None:
    site.add("s")
    target = site.root / "copy"
    for version, through in enumerate((5, 9)):
        consume(site, target, version, through)
    assert held(site) == [("lake.copy", 1, [9])]
    shutil.rmtree(target)
    site.now += MINUTE
    for version, through in enumerate((2, 3)):
        consume(site, target, version, through)
        assert held(site) == [("lake.copy", version, [through])]


def test_target_that_hangs_keeps_no_snapshot_waiting(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("s")
    consume(site, site.root / "copy", 0, 5)
    released = Event()
    monkeypatch.setattr(Provenances, "newest", lambda *_, **__: released.wait(60))
    monkeypatch.setattr(target_lines, "_WITHIN_SECONDS", 0.2)
    found = site.check()
    released.set()
    assert (found.targets, found.omitted) == (
        (),
        ("the sources of target lake.copy: TimeoutError",),
    )


def test_target_that_was_dropped_is_not_shown(site: Site) -> None:
    site.add("s")
    target = site.root / "copy"
    consume(site, target, 0, 5)
    shutil.rmtree(target)
    assert held(site) == []
    assert site.check().omitted == ()


def test_target_that_cannot_be_read_keeps_what_is_known(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("s")
    target = site.root / "copy"
    consume(site, target, 0, 5)
    assert held(site) == [("lake.copy", 0, [5])]
    consume(site, target, 1, 9)

    def fail(*_: object, **__: object) -> None:
        raise PermissionError("no token")

    monkeypatch.setattr(Provenances, "newest", fail)
    assert held(site) == [("lake.copy", 0, [5])]
    assert site.check().omitted == ("the sources of target lake.copy: PermissionError",)


def test_check_reads_the_log_of_a_waiting_stream_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("s")
    add_file(site.root / "s", 1, NOON, 10)
    read, ranges = SourceLog.range, list[object]()

    def counted(*arguments: Any, **options: Any) -> object:
        ranges.append(arguments)
        return read(*arguments, **options)

    monkeypatch.setattr(SourceLog, "range", counted)
    line = site.line()
    assert line.plan is not None
    assert (line.plan.size_bytes, len(ranges)) == (10, 1)
