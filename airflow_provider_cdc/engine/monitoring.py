"""Watching streams without Spark: which alerts there are to tell, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from .catalog import StreamCatalog
from .clock import utc_now
from .core.alerts import Alert, AlertKind, Finding, Promise, Standing, kind_of
from .storage.files import Files
from .storage.told_alerts import ToldAlerts
from .stream_status import StreamStatus


class StreamMonitor:
    """Looks at the streams of a state folder, and tells of each change of their standing once.

    :param state: the state folder
    :param storage_options: how to reach the store
    :param clock: gives the time, in UTC
    """

    def __init__(
        self,
        state: str,
        *,
        storage_options: Mapping[str, Any] | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._catalog = StreamCatalog(state, storage_options=storage_options, clock=clock)
        self._told = ToldAlerts(state, Files(storage_options), clock)
        self._clock = clock

    def run(
        self,
        tell: Callable[[Alert], object],
        *,
        margin: timedelta,
        see: Callable[[StreamStatus], object] = lambda _: None,
    ) -> list[Alert]:
        """Look at every stream, and call ``tell`` for each alert that was not told yet.

        An alert counts as told when ``tell`` returns; one for which it raises is told by a run that
        comes ten minutes later or more, and the others are told nevertheless.

        :param margin: how long before ``stale_after`` a warning is due
        :param see: is called with the status of every stream before anything is told
        :returns: what was told
        :raises ExceptionGroup: what ``tell`` raised, or looking at a stream, after all was tried
        """
        streams = self._catalog.show()
        self._told.forget_all_but({stream.stream_id for stream in streams})
        found: list[Alert] = []
        failures: list[Exception] = []
        statuses = []
        for stream in streams:
            try:
                statuses.append(self._catalog.status_of(stream))
            except Exception as error:
                error.add_note(f"stream {stream.name}")
                failures.append(error)
        for status in statuses:
            see(status)
        for alert, confirm in self._due(statuses, margin):
            try:
                tell(alert)
            except Exception as error:
                failures.append(error)
            else:
                confirm()
                found.append(alert)
        if failures:
            raise ExceptionGroup("not all alerts could be told", failures)
        return found

    def _due(
        self, statuses: Sequence[StreamStatus], margin: timedelta
    ) -> Iterator[tuple[Alert, Callable[[], None]]]:
        now = self._clock()
        for status in statuses:
            for finding in findings(status, now, margin):
                claim = self._told.claim(status.stream_id, finding.promise, finding.standing)
                if claim is None:
                    continue
                kind = kind_of(claim.before, claim.standing)
                if kind is not None:
                    alert = _alert(status, finding, now, kind)
                    yield alert, partial(self._told.told, claim)


def findings(status: StreamStatus, now: datetime, margin: timedelta) -> list[Finding]:
    """How each promise of a stream stands at the moment ``now``.

    :param margin: how long before ``stale_after`` it is near to going stale
    """
    return [_staleness(status, now, margin), _lag(status, now)]


def lag_of(status: StreamStatus, now: datetime) -> timedelta:
    """How long the oldest change that is not consumed has waited; zero where there is none."""
    return now - (status.behind_since or now)


def _staleness(status: StreamStatus, now: datetime, margin: timedelta) -> Finding:
    standing, reason = Standing.KEPT, f"it is kept until {_moment(status.stale_after)}"
    if status.invalid_reason is not None:
        standing, reason = Standing.BROKEN, status.invalid_reason
    elif status.stale:
        standing, reason = Standing.BROKEN, f"stale_after has passed: {_moment(status.stale_after)}"
    elif now >= status.stale_after - margin:
        standing, reason = Standing.NEAR, f"it goes stale after {_moment(status.stale_after)}"
    elif status.may_have_data and now >= status.kept_until:
        standing = Standing.NEAR
        reason = (
            f"its source promises to keep what it needs until {_moment(status.kept_until)} alone:"
            " run MaintainStreams"
        )
    return Finding(Promise.STALENESS, standing, reason)


def _lag(status: StreamStatus, now: datetime) -> Finding:
    lag = lag_of(status, now)
    if status.max_lag is None:
        return Finding(Promise.LAG, Standing.KEPT, "it has no max_lag")
    is_broken = lag > status.max_lag
    return Finding(
        Promise.LAG,
        Standing.BROKEN if is_broken else Standing.KEPT,
        f"its oldest change waits for {lag}, max_lag is {status.max_lag}",
    )


def _alert(status: StreamStatus, finding: Finding, now: datetime, kind: AlertKind) -> Alert:
    return Alert(
        kind=kind,
        promise=finding.promise,
        reason=finding.reason,
        stream=status.name,
        stream_id=status.stream_id,
        source=status.table_on,
        lag_commits=status.commits_behind,
        lag_bytes=status.bytes_behind,
        lag_seconds=lag_of(status, now).total_seconds(),
        stale_after=status.stale_after,
        last_consumer=status.last_consumer,
        at=now,
    )


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
