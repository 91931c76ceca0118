"""The operator that sends alerts for streams that lag or go stale."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.catalog.objectives import lag_of
from airflow_provider_cdc.engine.catalog.stream_status import StreamStatus
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.model.alerts import Alert
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.hooks.registry_reach import check_reach
from airflow_provider_cdc.hooks.stale_after_variable import write_stale_after
from airflow_provider_cdc.hooks.stale_stream import StaleStreamHook

from .base import StreamOperator
from .metrics import Figure, measure

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier, Context


class CheckStreams(StreamOperator):
    """Check all streams of a connection, and send one alert for each change of status.

    It sends a warning ``margin`` before ``stale_after``, or when the source no longer guarantees to
    keep what a stream needs. It sends a breach when ``stale_after`` has passed, when the stream
    cannot be read, or when its oldest change is older than its ``max_lag``. It sends a recovery
    when the problem is over. No JVM is started.

    For an upsert table, ``max_lag`` is its ``max_staleness``, or three hours if it has none. If
    changes are in the table's quarantine, a breach is sent, or a warning if all of them are late.

    The templates of a notifier can use ``alert``, with ``kind``, ``objective``, ``stream``,
    ``source``, ``upsert_table`` and ``change_stream`` (or None), ``reason``, ``lag_commits``,
    ``lag_bytes``, ``lag_seconds``, ``stale_after`` and ``last_consumer``, and with the texts
    ``sentence`` and ``details``. They can also use each of these directly by its name. The
    exception is a name that is also a template field of the notifier, such as ``source``: there
    Airflow provides the field of the notifier.

    Each run also sets Airflow's metrics ``cdc.stream.<conn_id>.<stream>.`` with ``lag_seconds``,
    ``lag_commits``, ``has_data`` (0 or 1) and ``stale_in_seconds`` (negative: it is stale). They
    are sent to the same backend as Airflow's metrics (StatsD, OpenTelemetry).

    Each run also writes ``stale_after`` of every stream to the Variable
    ``cdc_stale_after.<conn_id>``. The deadline
    :class:`~airflow_provider_cdc.deadlines.stale.StreamStaleDeadline` reads it.

    Returns (XCom) the alerts that were sent.

    :param notifiers: any of Airflow's notifiers. If one fails, the others are still called, and a
        later run calls only the failed one again
    :param margin: how long before ``stale_after`` a warning is due
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("conn_id",)

    def __init__(
        self,
        *,
        notifiers: Sequence[BaseNotifier],
        margin: timedelta | str = timedelta(days=2),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.notifiers = notifiers
        self.margin = margin

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Send the alerts that are due.

        :raises CdcJobFailed: a notifier failed, and a later run sends it the alert; or a stream
            could not be checked; or the registry cannot be reached
        """
        moments: dict[str, datetime] = {}

        def see(status: StreamStatus) -> None:
            moments[status.name] = status.stale_after
            self._measure(status)

        hook = StaleStreamHook(self.conn_id)
        try:
            sent = hook.monitor().run(self._receivers(context), margin=self.margin, see=see)
        except ExceptionGroup as failures:
            write_stale_after(self.conn_id, moments, is_whole=False)
            raise CdcJobFailed(
                f"streams of {self.conn_id}: {failures.message}."
                f" Cause: {'; '.join(map(_failure_text, failures.exceptions))}."
                " Fix: correct the notifier or"
                " the access to the source. A run more than ten minutes later sends the missing"
                " alerts."
            ) from failures
        if not moments:
            check_reach(self.hook)
        write_stale_after(self.conn_id, moments, is_whole=True)
        return [_plain(alert) for alert in sent]

    def _receivers(self, context: Context) -> dict[str, Callable[[Alert], None]]:
        """Each notifier, by its class and its number among the notifiers of that class.

        These names stay the same when the message of a notifier changes, or when the DAG's file
        moves.
        """
        receivers: dict[str, Callable[[Alert], None]] = {}
        seen: Counter[str] = Counter()
        for notifier in self.notifiers:
            kind = type(notifier).__qualname__
            seen[kind] += 1
            receivers[f"{kind} {seen[kind]}"] = partial(self._send, notifier, context)
        return receivers

    def _send(self, notifier: BaseNotifier, context: Context, alert: Alert) -> None:
        self.log.info(
            "%s gets the %s %s of stream %s",
            type(notifier).__qualname__,
            alert.objective.value,
            alert.kind.value,
            alert.stream,
        )
        # Rendering the templates changes a notifier, so only a copy is called.
        copy.copy(notifier)(_context(context, alert))

    def _measure(self, status: StreamStatus) -> None:
        now = utc_now()
        figures = {
            Figure.LAG_SECONDS: lag_of(status, now).total_seconds(),
            Figure.HAS_DATA: float(status.may_have_data),
            Figure.STALE_IN_SECONDS: (status.stale_after - now).total_seconds(),
        }
        if status.commits_behind is not None:
            figures[Figure.LAG_COMMITS] = status.commits_behind
        measure(self.conn_id, status.name, figures)


def _context(context: Context, alert: Alert) -> Any:
    words = {"sentence": alert.sentence, "details": alert.details}
    return {**context, **asdict(alert), **words, "alert": alert}


def _failure_text(error: Exception) -> str:
    return f"{error!r} ({', '.join(getattr(error, '__notes__', ()))})"


def _plain(alert: Alert) -> dict[str, Any]:
    """The alert in a form that XCom can store."""
    moments = {"stale_after": alert.stale_after.isoformat(), "at": alert.at.isoformat()}
    words = {"kind": alert.kind.value, "objective": alert.objective.value}
    return asdict(alert) | moments | words
