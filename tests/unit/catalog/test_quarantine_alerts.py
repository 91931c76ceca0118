"""The objectives of upsert tables and their alerts, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from quarantines import quarantined
from streams import NOON, add_file, new_stream, offset_at, quiet_stream, register
from typer.testing import CliRunner

from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.cli.text_tables import WIDTH
from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.catalog.upsert_jobs import LONGEST_WITHOUT_MAX_STALENESS
from airflow_provider_cdc.engine.core.delta.log_actions import DataFile
from airflow_provider_cdc.engine.core.model.alerts import Alert
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.upserts.change_rows import Reason
from airflow_provider_cdc.engine.core.upserts.quarantine_size import (
    QuarantineSize,
    quarantine_size,
)

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


class Site:
    """The upsert table ``orders`` without Spark, and the time."""

    def __init__(self, root: Path, max_staleness: timedelta | None = 10 * MINUTE) -> None:
        self.state, self.base = root / "state", root / "orders"
        self.now = NOON
        self.changes = self.base / "_cdc" / "changes"
        add_file(self.changes, 0, NOON, data_change=False)
        stream = new_stream(
            "upserts_1",
            source=Source(str(self.changes), str(self.changes), "a-table-id"),
            offset=offset_at(self.changes, 0),
            created_at=NOON,
            upsert_table="orders",
            max_lag=max_staleness,
        )
        register(self.state, stream)
        self.catalog = StreamCatalog(str(self.state), clock=self.clock, principal="somebody")

    def clock(self) -> datetime:
        return self.now

    def write(self) -> None:
        add_file(self.changes, 1, self.now, 10)

    def quarantine(self, version: int, *actions: dict[str, Any]) -> None:
        log = self.base / "_cdc" / "quarantine" / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        lines = map(json.dumps, ({"commitInfo": {"timestamp": 0}}, *actions))
        (log / f"{version:020d}.json").write_text("\n".join(lines), encoding="utf-8")

    def sent(self, send: Callable[[Alert], object] = lambda _: None) -> list[tuple[str, str]]:
        monitor = StreamMonitor(str(self.state), clock=self.clock)
        return [
            (a.objective.value, a.kind.value) for a in monitor.run({"somebody": send}, margin=DAY)
        ]


def test_changes_beyond_max_staleness_are_reported_with_their_table(
    tmp_path: Path,
) -> None:
    site, found = Site(tmp_path), list[Alert]()
    site.write()
    site.now += 10 * MINUTE
    assert site.sent(found.append) == []
    site.now += MINUTE
    assert site.sent(found.append) == [("lag", "breach")]
    assert (found[0].stream, found[0].upsert_table) == ("upserts_1", "orders")
    assert found[0].reason == (
        "the oldest change of upsert table orders has waited for 11 minutes to be applied; its"
        " max_staleness is 10 minutes"
    )


@pytest.mark.parametrize("max_staleness", [None, timedelta(0)])
def test_unapplied_changes_are_reported_even_without_a_max_staleness(
    tmp_path: Path, max_staleness: timedelta | None
) -> None:
    site, found = Site(tmp_path, max_staleness), list[Alert]()
    site.write()
    site.now += LONGEST_WITHOUT_MAX_STALENESS
    assert site.sent() == []
    site.now += MINUTE
    assert site.sent(found.append) == [("lag", "breach")]
    assert found[0].reason.endswith(
        "has waited for 3 hours 1 minute to be applied; without a max_staleness it should wait for"
        " 3 hours at most"
    )
    site.catalog.for_upserts().advance_stream("upserts_1")
    assert site.sent() == [("lag", "recovery")]


def test_stream_on_a_plain_table_reports_staleness_and_no_lag(tmp_path: Path) -> None:
    found = list[Alert]()
    quiet_stream(tmp_path / "state", tmp_path / "t", "s")
    add_file(tmp_path / "t", 1, NOON)
    monitor = StreamMonitor(str(tmp_path / "state"), clock=lambda: NOON + 13 * DAY + MINUTE)
    monitor.run({"somebody": found.append}, margin=DAY)
    assert [(alert.objective.value, alert.upsert_table) for alert in found] == [("staleness", None)]


def test_quarantined_changes_are_reported_once_and_on_recovery(tmp_path: Path) -> None:
    site, found = Site(tmp_path), list[Alert]()
    site.quarantine(0)
    assert site.sent(found.append) == []
    site.quarantine(1, {"add": quarantined(Reason.NUMBER, Reason.WAITS)})
    assert site.sent(found.append) == [("quarantine", "breach")]
    assert site.sent(found.append) == []
    assert found[0].reason.startswith(
        "the quarantine of upsert table orders holds changes that are not applied, 2 in all:"
    )
    site.quarantine(2, {"remove": {"path": "f"}})
    assert site.sent(found.append) == [("quarantine", "recovery")]
    assert site.sent(found.append) == []


def test_quarantine_with_only_late_changes_is_a_warning(tmp_path: Path) -> None:
    site, found = Site(tmp_path), list[Alert]()
    late, bad = quarantined(Reason.LATE), quarantined(Reason.TYPE) | {"path": "g"}
    site.quarantine(0, {"add": late})
    assert site.sent(found.append) == [("quarantine", "warning")]
    assert "orders holds only late changes, 1 in all" in found[0].reason
    site.quarantine(1, {"add": bad})
    assert site.sent() == [("quarantine", "breach")]
    site.quarantine(2, {"remove": {"path": "g"}})
    assert site.sent() == [("quarantine", "warning")]


def test_quarantine_that_cannot_be_read_is_not_reported(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.sent() == []
    assert site.catalog.upsert_tables()[0].quarantined_changes is None


@pytest.mark.parametrize(
    ("files", "changes", "are_late"),
    [
        ([], 0, True),
        ([quarantined(Reason.LATE, Reason.LATE, removed=1)], 1, True),
        ([quarantined(Reason.LATE, Reason.WAITS, removed=1)], 1, False),
        ([quarantined(Reason.LATE, None)], 2, False),
        ([quarantined(None)], 1, False),
        ([quarantined(Reason.WAITS, removed=1)], 0, True),
        ([{"path": "f", "size": 1}], None, False),
    ],
    ids=["none", "late", "others", "cleared", "no reason", "all deleted", "no statistics"],
)
def test_quarantine_size_comes_from_the_statistics_of_its_files(
    files: list[dict[str, Any]], changes: int | None, are_late: bool
) -> None:
    found = quarantine_size(map(DataFile.of, files))
    assert found == QuarantineSize(changes, are_late)


@pytest.mark.parametrize("reason", Reason)
def test_quarantine_statistics_flag_only_late_changes_as_late(reason: Reason) -> None:
    found = quarantine_size([DataFile.of(quarantined(reason))])
    assert found.are_late is (reason is Reason.LATE)


def test_upsert_tables_list_pending_changes_and_exclude_other_streams(tmp_path: Path) -> None:
    site = Site(tmp_path)
    quiet_stream(site.state, tmp_path / "t", "no_upserts")
    site.quarantine(0, {"add": quarantined(Reason.TYPE)})
    site.now += MINUTE
    site.write()

    (found,) = site.catalog.upsert_tables()

    assert (found.name, found.location, found.stream) == ("orders", str(site.base), "upserts_1")
    assert (found.max_staleness, found.quarantined_changes) == ("0-0 0 0:10:0 (10 minutes)", 1)
    assert (found.pending_since, found.pending_commits) == (NOON + MINUTE, 1)
    assert found.pending_bytes
    assert found.upsert_stream_apply_watermark == NOON + MINUTE - timedelta(milliseconds=1)
    site.catalog.for_upserts().advance_stream("upserts_1")
    (found,) = site.catalog.upsert_tables()
    assert (found.pending_since, found.pending_commits, found.pending_bytes) == (None, 0, 0)


def test_upsert_table_with_missing_changes_reports_why_and_what_is_applied(tmp_path: Path) -> None:
    site = Site(tmp_path, None)
    for version in (2, 3):
        add_file(site.changes, version, NOON + MINUTE)

    (found,) = site.catalog.upsert_tables()

    assert "version 1 is missing" in str(found.invalid_reason)
    assert (found.pending_commits, found.pending_bytes, found.max_staleness) == (None, None, None)
    assert found.upsert_stream_apply_watermark == NOON


def shown(site: Site, *arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(
        app, ["upsert-tables", *arguments], env={"CDC_STATE": str(site.state)}
    )
    return found.exit_code, found.output


def test_upsert_tables_are_printed(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.quarantine(0)
    site.write()

    code, printed = shown(site, "-o", "json")
    (line,) = json.loads(printed)
    assert (code, line["name"], line["max_staleness"]) == (0, "orders", "0-0 0 0:10:0 (10 minutes)")
    assert line["pending_since"] == "2026-01-01T12:00:00+00:00"
    assert (line["pending_commits"], line["quarantined_changes"]) == (1, 0)

    code, printed = shown(site)
    assert code == 0
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert printed.splitlines()[-1].split()[:4] == ["orders", "0-0", "0", "0:10:0"]

    code, printed = shown(site, "--state", "relative")
    assert code == 1
    assert "expected an absolute path" in printed
