"""Streams in each condition on tables without Spark, in the state folder of ``cdc_page``."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from partitions import new_change_stream
from quarantines import quarantined
from streams import add_file, new_stream, offset_at, register

from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.change_streams.captures import Capture, CapturedGroup
from airflow_provider_cdc.engine.core.change_streams.stamps import stamp_of
from airflow_provider_cdc.engine.core.consumption.source_notes import TakenVersions
from airflow_provider_cdc.engine.core.model.consumption import Consumption, StreamRange
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
)
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.model.stream import Phase
from airflow_provider_cdc.engine.core.monitoring.status_snapshot import StatusSnapshot
from airflow_provider_cdc.engine.core.upserts.change_rows import Reason
from airflow_provider_cdc.engine.core.upserts.job_records import Job, JobClass
from airflow_provider_cdc.engine.core.verification.proof import VerificationState
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change
from airflow_provider_cdc.engine.storage.state.apply_times import ApplyTimes
from airflow_provider_cdc.engine.storage.state.captures import Captures
from airflow_provider_cdc.engine.storage.state.change_streams import ChangeStreams
from airflow_provider_cdc.engine.storage.state.job_history import JobHistory
from airflow_provider_cdc.engine.storage.state.status_snapshots import StatusSnapshots
from airflow_provider_cdc.engine.storage.state.verifications import Verifications

HOSTILE = "<img src=x onerror=alert(1)>"
CONSUMER = "cdc_page_consumer/advance"
HOUR = timedelta(hours=1)


def _same(moment: datetime) -> datetime:
    return moment


class PageSite:
    """A stream in each condition.

    :param root: the folder of the tables and of the state folder
    """

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / "state"
        self.add("late", HOSTILE, has_data=True, max_lag=timedelta(minutes=1))
        self.add("waiting", has_data=True)
        self.add("current")
        self.add("quiet")
        add_file(self.root / "quiet", 1, utc_now(), data_change=False)
        self.add("at_risk", has_data=True, age=6.5 * timedelta(days=1))
        self.add("broken")
        (self.root / "broken/_delta_log" / f"{0:020d}.json").unlink()
        self.add("upserts_1", has_data=True, upsert_table="lake.prices", max_lag=2 * HOUR)
        self._add_conditions()
        self._add_consumptions("waiting")
        self._add_jobs()
        self._add_verification("current", "lake.current_copy", differing_keys=0)
        self._add_change_stream()

    def add(
        self,
        name: str,
        table: str | None = None,
        *,
        has_data: bool = False,
        age: timedelta = HOUR,
        folder: Path | None = None,
        **fields: Any,
    ) -> None:
        """Register a stream whose table was made ``age`` ago."""
        location, moment = folder or self.root / name, utc_now() - age
        add_file(location, 0, moment, data_change=False)
        offset = replace(offset_at(location, 0), timestamp=moment)
        if has_data:
            add_file(location, 1, moment, 10)
        stream = new_stream(
            name,
            source=Source(table or f"lake.{name}", str(location), "a-table-id"),
            offset=offset,
            created_at=moment,
            last_consumer=CONSUMER,
            last_consumed_at=moment,
            # Without an extension a stream goes stale after the retention of its source.
            **{"max_data_extension": timedelta(0)} | fields,
        )
        register(self.state, stream)

    def _add_conditions(self) -> None:
        """Streams in the conditions that more than a log shows."""
        self.add("unreachable")
        (self.root / "unreachable/_delta_log" / f"{1:020d}.json").write_bytes(b"\0")
        self.add("differs")
        self._add_verification("differs", "lake.differing_copy", differing_keys=3)
        for name, phase in (("consuming", Phase.APPLYING), ("unsettled", Phase.RESOLVING)):
            stream = f"id of {name}"
            taken = StreamRange(stream, name, ())
            begun = Consumption(f"c-{name}", CONSUMER, (taken,), (), utc_now())
            self.add(name, has_data=True, phase=phase, consumption=begun)
        changes = self.root / "orders/_cdc/changes"
        self.add("upserts_2", folder=changes, upsert_table="lake.orders", max_lag=2 * HOUR)
        quarantine = self.root / "orders/_cdc/quarantine/_delta_log"
        quarantine.mkdir(parents=True)
        bad = json.dumps({"add": quarantined(Reason.NUMBER, Reason.WAITS)})
        (quarantine / f"{0:020d}.json").write_text(bad, "utf-8")

    def _add_consumptions(self, name: str) -> None:
        """Consumptions of a stream as the registry shows them, 50, 40, ... 10 minutes ago, and
        their target.
        """
        target = self.root / "waiting_copy"
        for version, minutes in enumerate(range(50, 0, -10)):
            moment = utc_now() - minutes * timedelta(minutes=1)
            registry = Registry(str(self.state), clock=partial(_same, moment))
            snapshot = registry.snapshot()
            rows = {"inserted": minutes * 10, "updated": 100, "deleted": 500 // minutes}
            taken = StreamOutcome(f"id of {name}", name, 0, 0, "nothing", rows, (), moment)
            versions = TakenVersions(name, f"lake.{name}", "a-table-id", version - 1, version)
            add_file(target, version, moment, taken=[versions])
            statement = StatementOutcome(
                0, "lake.waiting_copy", StatementResult.APPLIED, version, location=str(target)
            )
            stream = replace(
                snapshot.get(name),
                last_outcome=Outcome("c", CONSUMER, (taken,), (statement,), minutes / 10),
                last_consumed_at=moment,
            )
            changes = [Change(stream, Transition.COMMITTED)]
            registry.transact(snapshot, changes, actor="airflow")

    def _add_jobs(self) -> None:
        now = utc_now()
        for minutes, job_class in ((3, JobClass.BACKGROUND_APPLY), (1, JobClass.QUERY)):
            began = now - minutes * timedelta(minutes=1)
            JobHistory(str(self.state)).record(
                Job(uuid.uuid4().hex, job_class, "lake.prices", began, now, 10, 100, 5, "tests")
            )
        ApplyTimes(str(self.state), Files(), utc_now).note("id of upserts_1", timedelta(seconds=50))

    def _add_verification(self, stream: str, target: str, *, differing_keys: int) -> None:
        Verifications(str(self.state), Files()).save(
            VerificationState(f"id of {stream}", target, None, 0, utc_now(), 0, differing_keys)
        )

    def _add_change_stream(self) -> None:
        """A change stream whose consumer got its partitions and never came back. A partition was
        split before.
        """
        past = [utc_now() - hours * HOUR for hours in (3, 2, 1)]
        created, split, captured = map(stamp_of, past)
        stream = replace(new_change_stream(created), tables=())
        layout = stream.layout.split(stream.layout.open[0], 1000, split)
        streams = ChangeStreams(str(self.state), Files())
        streams.create(replace(stream, steps=layout.steps, through=captured), None)
        at = captured - 10
        group = CapturedGroup(at, 0, 1, "INSERT", "*", 2048, 3)
        capture = Capture(at, at, "f", (), (), (), (group,))
        Captures(streams, Files()).publish(streams.get("cs"), capture)
        catalog = ChangeStreamCatalog(str(self.state), clock=lambda: past[2])
        catalog.list_partitions("cs", "reader", start_timestamp=past[0], lease="PT10M")

    def check(self) -> None:
        """Run the monitor. It fails, because a source does not answer."""
        with pytest.RaisesGroup(json.JSONDecodeError):
            StreamMonitor(str(self.state)).run({"log": print}, margin=timedelta(days=1))

    @property
    def snapshots(self) -> StatusSnapshots:
        return StatusSnapshots(str(self.state), Files())

    @property
    def newest(self) -> StatusSnapshot:
        """What the last check found."""
        found = self.snapshots.newest()
        assert found is not None
        return found
