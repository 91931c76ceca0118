"""A stream as an asset that wakes DAGs, and its consumptions as another."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, AssetWatcher

from airflow_provider_cdc.engine.core.intervals import interval_of, period_of
from airflow_provider_cdc.engine.core.names import stream_key
from airflow_provider_cdc.engine.core.outcomes import Outcome, StreamOutcome
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.triggers.watcher import StreamWatcherTrigger

from .uri import consumptions_uri, stream_uri

if TYPE_CHECKING:
    from airflow.sdk import Context

CONSUMPTIONS = AssetAlias("cdc_consumptions")
"""The outlet by which tasks announce the consumptions of whatever streams they consumed."""


def stream_asset(
    stream: str,
    *,
    conn_id: str = CdcHook.default_conn_name,
    poll_interval: timedelta | str = timedelta(seconds=30),
    repeat_after: timedelta | str = timedelta(hours=1),
) -> Asset:
    """A stream as an asset: a DAG that is scheduled on it is woken when there is new data.

    The triggerer looks at the logs, once for all streams of a connection; commits that only
    rearrange files (OPTIMIZE) wake nobody. An event only wakes: it may repeat or, while its DAG is
    paused, be lost, and what is consumed is told by the stream's offset alone. So let the runs
    follow each other (``max_active_runs=1``). A stream that can no longer be read wakes too, so
    that its consumer fails where somebody sees it.

    :param stream: the name of the stream, which need not exist yet
    :param conn_id: a connection of type ``cdc``
    :param poll_interval: the time between two looks; streams of one connection that share it share
        the look
    :param repeat_after: wake again when data has waited so long since the last event, and a stream
        that cannot be read so often
    :raises InvalidName: ``stream`` is not the name of a stream
    :raises InvalidRequest: a length of time is none
    """
    uri = stream_uri(stream, conn_id)
    trigger = StreamWatcherTrigger(
        stream=stream_key(stream),
        conn_id=conn_id,
        asset=uri,
        poll_interval=period_of(poll_interval, "poll_interval").total_seconds(),
        repeat_after=interval_of(repeat_after, "repeat_after").total_seconds(),
    )
    return Asset(name=uri, uri=uri, watchers=[AssetWatcher(name="new data", trigger=trigger)])


def consumption_asset(stream: str, *, conn_id: str = CdcHook.default_conn_name) -> Asset:
    """What became of a stream's changes: a DAG that is scheduled on it runs after a consumption.

    ``ConsumeStream`` and ``RecoverStream`` emit its events, with what was consumed as their extra:
    ``consumption_id``, ``consumer``, ``after_version`` (exclusive), ``through_version``
    (inclusive), ``through_timestamp`` (when that version was committed, ISO 8601) and ``rows``.

    :raises InvalidName: ``stream`` is not the name of a stream
    """
    uri = consumptions_uri(stream, conn_id)
    return Asset(name=uri, uri=uri)


def create_asset(*, stream: str, conn_id: str, extra: dict[str, Any] | None = None) -> Asset:
    """A stream as an asset without a watcher, for Airflow's collector of lineage."""
    uri = stream_uri(stream, conn_id)
    return Asset(name=uri, uri=uri, extra=extra)


def announce(context: Context, conn_id: str, outcome: Outcome, outlets: Sequence[Any]) -> None:
    """Emit the asset events of a consumption: one for each stream of which rows were consumed, and
    what was consumed as the extra of the events of the task's own ``outlets``.
    """
    events = context.get("outlet_events")
    if events is None:
        return
    consumed = [stream for stream in outcome.streams if any(stream.rows.values())]
    for stream in consumed:
        asset = consumption_asset(stream.name, conn_id=conn_id)
        events[CONSUMPTIONS].add(asset, extra=_extra(outcome, stream))
    for outlet in outlets:
        if isinstance(outlet, Asset):
            events[outlet].extra["consumed"] = [
                {"stream": stream.name} | _extra(outcome, stream) for stream in consumed
            ]


def _extra(outcome: Outcome, stream: StreamOutcome) -> dict[str, Any]:
    committed_at = stream.through_timestamp
    return {
        "consumption_id": outcome.consumption_id,
        "consumer": outcome.consumer,
        "after_version": stream.after_version,
        "through_version": stream.through_version,
        "through_timestamp": None if committed_at is None else committed_at.isoformat(),
        "rows": dict(stream.rows),
    }
