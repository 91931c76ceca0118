"""Monitors streams without Spark: finds the alerts, and sends each alert once."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ..clock import utc_now
from ..core.arguments.intervals import interval_of
from ..core.arguments.validation import validated, validated_call
from ..core.change_sets.read_plan import ReadPlan
from ..core.change_streams.source_streams import change_stream_of
from ..core.model.alerts import (
    Alert,
    AlertKind,
    ObjectiveState,
    alert_kind,
)
from ..core.model.serialization import UnreadableStream
from ..core.model.stream import Stream
from ..core.verification.proof import VerificationState
from ..storage.files.best_effort import log_failures
from ..storage.files.stores import Files
from ..storage.sources.source_log import StreamSpan
from ..storage.state.sent_alerts import SentAlerts
from .bounded_map import bounded_map
from .objectives import Observation, lag_of, objective_states
from .snapshot_writer import SnapshotWriter
from .stream_catalog import StreamCatalog
from .stream_status import StreamStatus, unanswered_status, unreadable_status
from .upsert_jobs import upsert_streams

log = logging.getLogger(__name__)

_AT_ONCE = 16
# A store that does not answer must not block the alerts of other streams. One stream may take 120
# seconds, and all streams together 480, because the monitor's DAG times out after ten minutes.
_PATIENCE_SECONDS = 120.0
_WITHIN_SECONDS = 480.0

UNKNOWN = "unknown"
"""The source that an alert names if the record of its stream cannot be read."""


@validated
class StreamMonitor:
    """Checks the streams of a state folder, and sends one alert for each change of an objective's
    status.

    :param state: the state folder
    :param storage_options: how to reach the store
    :param clock: gives the time, in UTC
    """

    @validated_call
    def __init__(
        self,
        state: str,
        *,
        storage_options: Mapping[str, Any] | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._catalog = StreamCatalog(state, storage_options=storage_options, clock=clock)
        self._sent = SentAlerts(state, Files(storage_options), clock)
        self._snapshots = SnapshotWriter(state, storage_options, clock)
        self._clock = clock

    def run(
        self,
        receivers: Mapping[str, Callable[[Alert], object]],
        *,
        margin: timedelta | str,
        see: Callable[[StreamStatus], object] = lambda _: None,
    ) -> list[Alert]:
        """Check every stream, and call ``receivers`` for each alert that they have not received.

        An alert counts as sent when all of ``receivers`` have returned. If one of them raises, a
        run at least ten minutes later calls only that one again. Other alerts are still sent. If
        the state folder holds no registry, the call sends nothing and forgets nothing.

        At its end, the call replaces the status snapshot in the state folder, which the page of
        streams shows. If that fails, the failure is only logged.

        :param receivers: functions that take an alert, by names that are the same in every run
        :param margin: how long before ``stale_after`` a warning is due
        :param see: called with the status of every stream before any alert is sent
        :returns: the alerts that were sent
        :raises ExceptionGroup: what ``receivers`` or the checks of streams raised, after all were
            tried
        """
        early = interval_of(margin, "margin")
        streams = self._catalog.list_streams_if_begun()
        if streams is None:
            return []
        found: list[Alert] = []
        failures: list[Exception] = []
        observed, unanswered = [], []
        readable = [stream for stream in streams if isinstance(stream, Stream)]
        known = {stream.stream_id for stream in upsert_streams(readable)}
        with _kept(failures, "streams that no longer exist"):
            self._sent.forget_all_but({stream.stream_id for stream in streams})
        verifications: Mapping[str, tuple[VerificationState, ...]] = {}
        with _kept(failures, "the results of checks"):
            verifications = self._catalog.verifications_of({each.stream_id for each in readable})
        # The order is random, so that another run checks a stream that this run has no time for.
        streams = random.sample(streams, len(streams))
        observations = bounded_map(
            lambda stream: self._observe(stream, known),
            streams,
            at_once=_AT_ONCE,
            patience_seconds=_PATIENCE_SECONDS,
            within_seconds=_WITHIN_SECONDS,
        )
        by_name = sorted(zip(streams, observations, strict=True), key=lambda each: each[0].name)
        for stream, seen in by_name:
            with _kept(failures, f"stream {stream.name}"):
                checks = verifications.get(stream.stream_id, ())
                if isinstance(seen, Exception):
                    if isinstance(stream, Stream):
                        known_of = _unanswered(stream, seen, self._clock())
                        unanswered.append(replace(known_of, verifications=checks))
                    raise seen
                observed.append(replace(seen, verifications=checks))
        for seen in observed:
            see(seen.status)
        now = self._clock()
        findings = [(seen, objective_states(seen, now, early)) for seen in observed]
        for seen, states in findings:
            for finding in states:
                with _kept(failures, f"{finding.objective} of stream {seen.status.name}"):
                    if alert := self._send(seen, finding, now, receivers, failures):
                        found.append(alert)
        with log_failures("the status snapshot", logging.WARNING):
            findings += [(seen, objective_states(seen, now, early)) for seen in unanswered]
            self._snapshots.write(findings, found, now)
        if failures:
            raise ExceptionGroup("not all alerts could be sent", failures)
        return found

    def _observe(self, stream: Stream | UnreadableStream, known: Collection[str]) -> Observation:
        if isinstance(stream, UnreadableStream):
            status = unreadable_status(stream, self._clock())
            return Observation(status, upsert_table=stream.upsert_table)
        status, span = self._catalog.status_and_span(stream)
        plan = self._plan_of(span) if span is not None and status.may_have_data else None
        if stream.upsert_table is None:
            return Observation(status, stream, plan=plan)
        # A table that was dropped and made again has a new stream. Its old stream must not report
        # the new table's quarantine.
        has_quarantine = stream.stream_id in known
        quarantine = self._catalog.quarantine_of(stream) if has_quarantine else None
        return Observation(status, stream, stream.upsert_table, quarantine, plan=plan)

    def _plan_of(self, span: StreamSpan) -> ReadPlan | None:
        """How the change set of a stream would be read; ``None``: that cannot be found out."""
        try:
            return self._catalog.plan_of(span)
        except Exception as error:
            log.info("The plan of stream %s is left out: %s", span.stream.name, error)
            return None

    def _send(
        self,
        seen: Observation,
        finding: ObjectiveState,
        now: datetime,
        receivers: Mapping[str, Callable[[Alert], object]],
        failures: list[Exception],
    ) -> Alert | None:
        """Send the alert for ``finding`` if it is due. Returns it when all of ``receivers`` have
        it.
        """
        claim = self._sent.claim(seen.status.stream_id, finding.objective, finding.status)
        if claim is None:
            return None
        kind = alert_kind(claim.before, claim.status)
        if kind is None:
            return None
        alert, failed_before = _alert(seen, finding, now, kind), len(failures)
        for name, send in receivers.items():
            if self._sent.knows(claim, name):
                continue
            with _kept(
                failures, f"{name}, {finding.objective} {kind} of stream {seen.status.name}"
            ):
                send(alert)
                self._sent.mark_sent_to(claim, name)
        if len(failures) > failed_before:
            return None
        self._sent.mark_sent(claim)
        return alert


def _unanswered(stream: Stream, error: Exception, now: datetime) -> Observation:
    """What is known of a stream whose source did not answer."""
    return Observation(unanswered_status(stream, error, now), stream, stream.upsert_table)


@contextmanager
def _kept(failures: list[Exception], what: str) -> Iterator[None]:
    """Append an exception to ``failures`` with the note ``what``, and continue."""
    try:
        yield
    except Exception as error:
        error.add_note(what)
        failures.append(error)


def _alert(seen: Observation, finding: ObjectiveState, now: datetime, kind: AlertKind) -> Alert:
    status = seen.status
    return Alert(
        kind=kind,
        objective=finding.objective,
        reason=finding.reason,
        stream=status.name,
        stream_id=status.stream_id,
        source=status.table_on or UNKNOWN,
        upsert_table=seen.upsert_table,
        change_stream=change_stream_of(status.name, status.comment),
        lag_commits=status.commits_behind,
        lag_bytes=status.bytes_behind,
        lag_seconds=lag_of(status, now).total_seconds(),
        stale_after=status.stale_after,
        last_consumer=status.last_consumer,
        at=now,
    )
