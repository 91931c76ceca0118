"""Each change of status is reported once, even by several monitors or killed ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import NOON, add_file, new_offset, new_stream, register

from airflow_provider_cdc.engine.catalog import monitoring
from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.catalog.show_streams import shown
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.change_streams.source_streams import (
    change_stream_of,
    source_comment,
    source_prefix,
)
from airflow_provider_cdc.engine.core.model.alerts import Alert, Objective, ObjectiveStatus
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.core.verification.proof import VerificationState
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.sent_alerts import SentAlerts
from airflow_provider_cdc.engine.storage.state.verifications import Verifications

MARGIN = timedelta(days=2)
METADATA = {"id": "a-table-id", "configuration": {"delta.enableRowTracking": "true"}}


class Site:
    """A stream at version 0 of a table without Spark, and the time."""

    def __init__(self, root: Path, name: str = "s", **fields: Any) -> None:
        self.root = root
        self.now = NOON
        self.catalog = StreamCatalog(str(root / "state"), clock=self.clock)
        offset = new_offset(0, METADATA)
        source = Source("orders", str(root), "a-table-id")
        stream = new_stream(name, source=source, offset=offset, **fields)
        register(root / "state", stream)
        self.commits = 0
        self.commit(data_change=False)

    def clock(self) -> datetime:
        return self.now

    def commit(self, *, data_change: bool = True) -> None:
        self.commits += 1
        add_file(self.root, self.commits, self.now, 10, data_change=data_change)

    def sent(
        self, send: Callable[[Alert], object] = lambda _: None, **others: Callable[[Alert], object]
    ) -> list[tuple[str, str]]:
        monitor = StreamMonitor(str(self.root / "state"), clock=self.clock)
        found = monitor.run({"somebody": send, **others}, margin=MARGIN)
        return [(a.objective.value, a.kind.value) for a in found]

    @property
    def alerts(self) -> Path:
        return self.root / "state" / "alerts"

    def wait(self) -> None:
        """Move the time until no monitor can still be sending an alert that it has claimed."""
        times = [datetime.now(NOON.tzinfo), self.now]
        self.now = max(times) + timedelta(minutes=11)


def refuse(_: Alert) -> None:
    raise ConnectionError("no route to the pager")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_unconsumed_stream_sends_warning_breach_and_recovery_once_each(
    site: Site,
) -> None:
    assert site.sent() == []
    site.commit()
    found = []
    for _ in range(60):
        site.now += timedelta(hours=12)
        found += [(site.now - NOON, *alert) for alert in site.sent()]
    days = timedelta(days=1)
    assert found == [
        (7 * days, "staleness", "warning"),  # nobody has extended the source's retention
        (14 * days, "staleness", "breach"),
    ]
    site.catalog.advance_stream("s")
    assert site.sent() == [("staleness", "recovery")]
    assert site.sent() == []


def test_alert_holds_what_a_template_needs(site: Site) -> None:
    site.commit()
    site.now += timedelta(days=13)
    found: list[Alert] = []
    site.sent(found.append)
    (alert,) = found
    assert (alert.stream, alert.source, alert.last_consumer) == ("s", "orders", None)
    assert (alert.lag_commits, alert.lag_bytes) == (1, 10)  # not the file that existed before
    assert alert.lag_seconds == timedelta(days=13).total_seconds()
    assert alert.stale_after == NOON + timedelta(days=14)
    assert "goes stale after" in alert.reason


def test_stream_with_a_log_gap_sends_a_breach_with_the_reason(site: Site) -> None:
    site.commit()
    site.commit()
    (site.root / "_delta_log" / f"{2:020d}.json").unlink()
    found: list[Alert] = []
    assert site.sent(found.append) == [("staleness", "breach")]
    assert "version 2 is missing" in found[0].reason
    assert (found[0].lag_commits, found[0].lag_bytes) == (None, None)


def test_lag_beyond_max_lag_is_reported_separately_from_staleness(tmp_path: Path) -> None:
    site = Site(tmp_path, max_lag=timedelta(hours=1))
    site.commit()
    site.now += timedelta(minutes=59)
    assert site.sent() == []
    site.now += timedelta(minutes=2)
    assert site.sent() == [("lag", "breach")]
    site.now += timedelta(days=15)
    assert site.sent() == [("staleness", "breach")]
    site.catalog.advance_stream("s")
    assert site.sent() == [("staleness", "recovery"), ("lag", "recovery")]


def test_stream_without_a_change_never_lags_and_never_goes_stale(tmp_path: Path) -> None:
    site = Site(tmp_path, max_lag=timedelta(hours=1))
    site.commit(data_change=False)
    for _ in range(5):
        site.now += timedelta(days=30)
        assert site.sent() == []


def test_alert_that_was_not_sent_is_sent_by_a_later_run(site: Site) -> None:
    site.commit()
    site.now += timedelta(days=13)

    with pytest.raises(ExceptionGroup, match="not all alerts could be sent"):
        site.sent(refuse)
    assert site.sent() == []  # the alert may be on its way
    site.wait()
    found: list[Alert] = []
    site.sent(found.append)
    assert [alert.stream for alert in found] == ["s"]
    assert site.sent() == []


def test_receiver_that_failed_is_the_only_one_called_again(site: Site) -> None:
    site.commit()
    site.wait()
    first: list[Alert] = []
    last: list[Alert] = []
    for _ in range(2):
        with pytest.raises(ExceptionGroup) as failed:
            site.sent(first.append, broken=refuse, last=last.append)
        (failure,) = failed.value.exceptions
        assert failure.__notes__ == ["broken, staleness breach of stream s"]
        site.wait()
    mended: list[Alert] = []
    found = site.sent(first.append, broken=mended.append, last=last.append)
    assert found == [("staleness", "breach")]
    assert [len(alerts) for alerts in (first, mended, last)] == [1, 1, 1]
    site.wait()
    assert site.sent(first.append, broken=mended.append, last=last.append) == []


def test_unsent_alert_is_retried_by_one_monitor_every_ten_minutes(tmp_path: Path) -> None:
    now = [NOON]
    monitors = [SentAlerts(str(tmp_path), Files(), lambda: now[0]) for _ in range(2)]
    for _ in range(3):
        now[0] = datetime.now(NOON.tzinfo) + timedelta(minutes=11)
        assert monitors[0].claim("s", Objective.LAG, ObjectiveStatus.BREACHED) is not None
        now[0] = datetime.now(NOON.tzinfo)
        assert monitors[1].claim("s", Objective.LAG, ObjectiveStatus.BREACHED) is None


def test_concurrent_retries_of_an_alert_claim_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = datetime.now(NOON.tzinfo) + timedelta(minutes=11)
    first, second = (SentAlerts(str(tmp_path), Files(), lambda: later) for _ in range(2))
    assert first.claim("s", Objective.LAG, ObjectiveStatus.BREACHED) is not None
    modified = Files.modified
    claims = []

    def look(files: Files, uri: str) -> datetime:
        found = modified(files, uri)
        monkeypatch.setattr(Files, "modified", modified)
        claims.append(second.claim("s", Objective.LAG, ObjectiveStatus.BREACHED))
        return found

    monkeypatch.setattr(Files, "modified", look)
    claims.append(first.claim("s", Objective.LAG, ObjectiveStatus.BREACHED))
    assert [claim is not None for claim in claims] == [True, False]


def test_drafts_of_a_killed_monitor_block_no_alert(site: Site) -> None:
    site.commit()
    site.now += timedelta(days=13)
    site.sent()
    (folder,) = site.alerts.iterdir()
    for name in ("staleness-00000001", "staleness-00000002.sent", "lag-00000001"):
        (folder / f"{name}.{'0' * 32}.draft").write_bytes(b"")
    site.now += timedelta(days=2)
    assert site.sent() == [("staleness", "breach")]
    assert site.sent() == []


def test_damaged_claim_blocks_no_alert(site: Site) -> None:
    site.commit()
    site.catalog.clone_stream("t", "s")
    site.now += timedelta(days=13)
    folder = site.alerts / site.catalog.get_stream("s").stream_id
    folder.mkdir(parents=True)
    claim = folder / "staleness-00000001"
    claim.write_text("of another version")
    made_at = (site.now - timedelta(minutes=11)).timestamp()
    os.utime(claim, (made_at, made_at))
    found: list[Alert] = []
    site.sent(found.append)
    assert [alert.stream for alert in found] == ["s", "t"]
    assert site.sent() == []


def test_sent_alerts_are_remembered_while_the_registry_is_missing(site: Site) -> None:
    site.commit()
    site.now += timedelta(days=13)
    site.sent()
    (site.root / "state" / "registry").rename(site.root / "elsewhere")
    assert site.sent() == []
    (site.root / "elsewhere").rename(site.root / "state" / "registry")
    assert site.sent() == []


def test_stream_that_cannot_be_checked_blocks_no_alert_of_other_streams(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.commit()
    site.catalog.clone_stream("t", "s")
    site.now += timedelta(days=13)
    observe = StreamCatalog.status_and_span

    def refuse(catalog: StreamCatalog, stream: Stream) -> object:
        if stream.name == "s":
            raise PermissionError("the store says no")
        return observe(catalog, stream)

    monkeypatch.setattr(StreamCatalog, "status_and_span", refuse)
    found: list[Alert] = []
    with pytest.raises(ExceptionGroup, match="not all alerts"):
        site.sent(found.append)
    assert [alert.stream for alert in found] == ["t"]


def test_stream_with_a_hanging_source_blocks_no_alert_of_other_streams(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset = new_offset(0, METADATA)
    source = Source("t", str(site.root), "a-table-id")
    register(site.root / "state", new_stream("hanging", source=source, offset=offset))
    site.commit()
    site.now += timedelta(days=30)
    observe, released = StreamCatalog.status_and_span, Event()

    def look(catalog: StreamCatalog, stream: Stream) -> object:
        if stream.name == "hanging":
            released.wait(60)
        return observe(catalog, stream)

    monkeypatch.setattr(StreamCatalog, "status_and_span", look)
    monkeypatch.setattr(monitoring, "_PATIENCE_SECONDS", 2.0)
    heard: list[Alert] = []
    with pytest.raises(ExceptionGroup) as failures:
        site.sent(heard.append)
    released.set()

    assert [alert.stream for alert in heard] == ["s"]
    (failure,) = failures.value.exceptions
    assert isinstance(failure, TimeoutError)
    assert failure.__notes__ == ["stream hanging"]


def test_alerts_of_a_dropped_stream_are_forgotten(site: Site) -> None:
    site.commit()
    site.now += timedelta(days=13)
    assert site.sent() == [("staleness", "warning")]
    site.catalog.drop_stream("s")
    assert site.sent() == []
    assert list((site.root / "state" / "alerts").glob("*")) == []


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(ObjectiveStatus), st.booleans()), max_size=12
    )
)
def test_each_status_change_is_reported_by_one_of_several_monitors(
    tmp_path_factory: pytest.TempPathFactory, looks: list[tuple[int, ObjectiveStatus, bool]]
) -> None:
    """A monitor may die after its claim and before its alert; the next change is still reported."""
    now = [NOON]
    state = str(tmp_path_factory.mktemp("sent"))
    monitors = [SentAlerts(state, Files(), lambda: now[0]) for _ in range(2)]
    reported = ObjectiveStatus.MET
    for monitor, status, dies in looks:
        now[0] = datetime.now(NOON.tzinfo) + timedelta(minutes=11)
        claim = monitors[monitor].claim("s", Objective.LAG, status)
        assert (claim is not None) or status is reported
        if claim is None:
            continue
        assert claim.status is status
        now[0] = datetime.now(NOON.tzinfo)
        assert monitors[1 - monitor].claim("s", Objective.LAG, status) is None
        reported = status
        if not dies:
            monitors[monitor].mark_sent(claim)
            assert claim.before is not status


def test_target_that_differs_sends_a_breach_and_a_recovery_once(site: Site) -> None:
    kept = Verifications(str(site.root / "state"), Files())
    stream = site.catalog.get_stream("s")

    def check(differing: int, target: str = "/lake/copy") -> None:
        found = VerificationState(stream.stream_id, target, None, 3, NOON, 4, differing)
        kept.save(found)

    assert site.sent() == []
    check(0)
    assert site.sent() == []
    check(7, "/lake/other")
    found: list[Alert] = []
    assert site.sent(found.append) == [("verification", "breach")]
    assert site.sent() == []
    assert found[0].reason.startswith("target /lake/other differs from the source in 7 keys at")
    status = site.catalog.describe_stream("s")
    assert (status.verified_through, shown(status)["differing_keys"]) == (3, 7)
    check(0, "/lake/other")
    assert site.sent() == [("verification", "recovery")]


def test_result_of_a_check_that_cannot_be_read_blocks_no_alert(site: Site) -> None:
    folder = site.root / "state" / "verifications"
    folder.mkdir()
    stream = site.catalog.get_stream("s")
    (folder / f"{stream.stream_id}-x.json").write_text("{")
    (folder / "other").write_text("")

    assert site.sent() == []
    assert site.catalog.describe_stream("s").verifications == ()
    assert shown(site.catalog.describe_streams()[0])["verified_through"] is None


def test_alert_about_a_watched_table_names_its_change_stream(tmp_path: Path) -> None:
    name = f"{source_prefix('Transfers')}0"
    site = Site(tmp_path, name, comment=source_comment("Transfers"), max_lag=timedelta(hours=1))
    site.commit()
    site.now += timedelta(hours=2)
    found: list[Alert] = []
    site.sent(found.append)

    (alert,) = found
    assert alert.change_stream == "Transfers"
    assert alert.sentence.startswith("lag breach of change stream Transfers on ")
    # Anybody can write such a comment.
    assert change_stream_of("mine", source_comment("Transfers")) is None
    assert change_stream_of(name, None) is None
