"""Monitors streams without Spark: finds the alerts, and sends each alert once."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ..clock import utc_now
from ..core.arguments.intervals import interval_of
from ..core.arguments.validation import validated, validated_call
from ..core.change_streams.source_streams import change_stream_of
from ..core.figures import counted, length_text
from ..core.model.alerts import (
    Alert,
    AlertKind,
    Objective,
    ObjectiveState,
    ObjectiveStatus,
    alert_kind,
)
from ..core.model.serialization import UnreadableStream
from ..core.model.stream import Stream
from ..core.upserts.quarantine_size import QuarantineSize
from ..core.verification.proof import VerificationState
from ..storage.files.stores import Files
from ..storage.state.sent_alerts import SentAlerts
from .bounded_map import bounded_map
from .stream_catalog import StreamCatalog
from .stream_status import StreamStatus, unreadable_status
from .upsert_jobs import LONGEST_WITHOUT_MAX_STALENESS, upsert_streams

_AT_ONCE = 16
# A store that does not answer must not block the alerts of other streams. One stream may take 120
# seconds, and all streams together 480, because the monitor's DAG times out after ten minutes.
_PATIENCE_SECONDS = 120.0
_WITHIN_SECONDS = 480.0

UNKNOWN = "unknown"
"""The source that an alert names if the record of its stream cannot be read."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The status of a stream. For a stream on the changes of an upsert table, ``quarantine`` is the
    size of the table's quarantine. ``None``: the quarantine cannot be read. ``verifications`` are
    the results of the last checks of its targets.
    """

    status: StreamStatus
    upsert_table: str | None = None
    quarantine: QuarantineSize | None = None
    verifications: tuple[VerificationState, ...] = ()


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
        observed = []
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
                if isinstance(seen, Exception):
                    raise seen
                checks = verifications.get(stream.stream_id, ())
                observed.append(replace(seen, verifications=checks))
        for seen in observed:
            see(seen.status)
        now = self._clock()
        for seen in observed:
            for finding in objective_states(seen, now, early):
                with _kept(failures, f"{finding.objective} of stream {seen.status.name}"):
                    if alert := self._send(seen, finding, now, receivers, failures):
                        found.append(alert)
        if failures:
            raise ExceptionGroup("not all alerts could be sent", failures)
        return found

    def _observe(self, stream: Stream | UnreadableStream, known: Collection[str]) -> Observation:
        if isinstance(stream, UnreadableStream):
            return Observation(unreadable_status(stream, self._clock()), stream.upsert_table)
        status = self._catalog.status_of(stream)
        if stream.upsert_table is None:
            return Observation(status)
        # A table that was dropped and made again has a new stream. Its old stream must not report
        # the new table's quarantine.
        has_quarantine = stream.stream_id in known
        quarantine = self._catalog.quarantine_of(stream) if has_quarantine else None
        return Observation(status, stream.upsert_table, quarantine)

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


@contextmanager
def _kept(failures: list[Exception], what: str) -> Iterator[None]:
    """Append an exception to ``failures`` with the note ``what``, and continue."""
    try:
        yield
    except Exception as error:
        error.add_note(what)
        failures.append(error)


def objective_states(seen: Observation, now: datetime, margin: timedelta) -> list[ObjectiveState]:
    """The status of each objective of a stream at the moment ``now``.

    :param margin: how long before ``stale_after`` the objective counts as at risk
    """
    status, found = seen.status, [_staleness(seen.status, now, margin)]
    if seen.verifications:
        found.append(_verification(seen.verifications))
    if seen.upsert_table is None:
        return [*found, _lag(status, now)]
    found.append(_apply_lag(seen.upsert_table, status, now))
    if seen.quarantine is not None:
        found.append(_quarantine(seen.upsert_table, seen.quarantine))
    return found


def lag_of(status: StreamStatus, now: datetime) -> timedelta:
    """How long the oldest change that is not consumed has waited. Zero: no change waits."""
    return now - (status.behind_since or now)


def _staleness(status: StreamStatus, now: datetime, margin: timedelta) -> ObjectiveState:
    objective_status, reason = (
        ObjectiveStatus.MET,
        f"it is kept until {_moment(status.stale_after)}",
    )
    if status.invalid_reason is not None:
        objective_status, reason = ObjectiveStatus.BREACHED, status.invalid_reason
    elif status.stale:
        objective_status, reason = (
            ObjectiveStatus.BREACHED,
            f"stale_after has passed: {_moment(status.stale_after)}",
        )
    elif now >= status.stale_after - margin:
        objective_status, reason = (
            ObjectiveStatus.AT_RISK,
            f"it goes stale after {_moment(status.stale_after)}",
        )
    elif status.may_have_data and now >= status.kept_until:
        objective_status = ObjectiveStatus.AT_RISK
        reason = (
            f"its source promises to keep what it needs only until {_moment(status.kept_until)}:"
            " run MaintainStreams"
        )
    return ObjectiveState(Objective.STALENESS, objective_status, reason)


def _lag(status: StreamStatus, now: datetime) -> ObjectiveState:
    lag = lag_of(status, now)
    if status.max_lag is None:
        return ObjectiveState(Objective.LAG, ObjectiveStatus.MET, "it has no max_lag")
    longest = length_text(status.max_lag)
    reason = f"its oldest change has waited for {length_text(lag)}, max_lag is {longest}"
    return ObjectiveState(Objective.LAG, _kept_within(status.max_lag, lag), reason)


def _apply_lag(table: str, status: StreamStatus, now: datetime) -> ObjectiveState:
    """Whether the changes of an upsert table wait too long. A table without a ``max_staleness`` has
    a limit too.
    """
    lag = lag_of(status, now)
    waits = f"has waited for {length_text(lag)} to be applied"
    reason = f"the oldest change of upsert table {table} {waits}"
    if status.max_lag:
        longest, promised = status.max_lag, f"its max_staleness is {length_text(status.max_lag)}"
    else:
        longest = LONGEST_WITHOUT_MAX_STALENESS
        promised = f"without a max_staleness it should wait for {length_text(longest)} at most"
    return ObjectiveState(Objective.LAG, _kept_within(longest, lag), f"{reason}; {promised}")


def _quarantine(table: str, size: QuarantineSize) -> ObjectiveState:
    """Whether the quarantine holds changes. Late changes do not block others, so they cause only a
    warning.
    """
    holds = f"the quarantine of upsert table {table} holds"
    if size.changes == 0:
        return ObjectiveState(Objective.QUARANTINE, ObjectiveStatus.MET, f"{holds} no change")
    count = "" if size.changes is None else f", {size.changes} in all"
    if size.are_late:
        reason = f"{holds} only late changes{count}: older than a delete whose tombstone has ended"
        return ObjectiveState(Objective.QUARANTINE, ObjectiveStatus.AT_RISK, reason)
    reason = (
        f"{holds} changes that are not applied{count}: they are bad, wait for a bad change of"
        " their key, are late, or were released since"
    )
    return ObjectiveState(Objective.QUARANTINE, ObjectiveStatus.BREACHED, reason)


def _verification(checks: Sequence[VerificationState]) -> ObjectiveState:
    differing = [check for check in checks if check.differing_keys]
    if not differing:
        through = min(check.checked_version for check in checks)
        reason = f"its {counted(len(checks), 'target')} equal the source through version {through}"
        return ObjectiveState(Objective.VERIFICATION, ObjectiveStatus.MET, reason)
    first = differing[0]
    reason = (
        f"target {first.target} differs from the source in {counted(first.differing_keys, 'key')}"
        f" at version {first.checked_version}: run VerifyTarget with heal=True"
    )
    return ObjectiveState(Objective.VERIFICATION, ObjectiveStatus.BREACHED, reason)


def _kept_within(longest: timedelta, lag: timedelta) -> ObjectiveStatus:
    return ObjectiveStatus.BREACHED if lag > longest else ObjectiveStatus.MET


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


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
