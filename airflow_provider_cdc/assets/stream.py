"""A stream as an asset that wakes DAGs, and its consumptions as another asset."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, AssetWatcher

from airflow_provider_cdc.engine.core.arguments.intervals import interval_of, period_of
from airflow_provider_cdc.engine.core.arguments.validation import validated_call
from airflow_provider_cdc.engine.core.model.outcomes import Outcome, StreamOutcome
from airflow_provider_cdc.engine.core.names import stream_key
from airflow_provider_cdc.hooks import DEFAULT_CONN_ID
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.triggers.watcher import StreamWatcherTrigger

from .uri import consumptions_uri, stream_uri, upsert_table_uri

if TYPE_CHECKING:
    from airflow.sdk import Context

GROUP = "cdc"
"""The group of all assets of this package. Airflow stores it for assets that a DAG names."""

CONSUMPTIONS = AssetAlias("cdc_consumptions", group=GROUP)
"""The outlet that tasks use to announce the consumption of any stream."""


@validated_call
def stream_asset(
    stream: str,
    *,
    conn_id: str = CdcHook.default_conn_name,
    poll_interval: timedelta | str = timedelta(seconds=30),
    repeat_after: timedelta | str = timedelta(hours=1),
) -> Asset:
    """Return a stream as an asset. A DAG that is scheduled on it is woken when there is new data.

    The triggerer reads the logs once for all streams of a connection. Commits that only rearrange
    files (OPTIMIZE) do not wake a DAG. An event only wakes a DAG: it may repeat, and it may be lost
    while the DAG is paused. Only the offset of the stream determines what is consumed. So run one
    run at a time (``max_active_runs=1``). If a stream can no longer be read, it also wakes its DAG,
    so that its consumer fails visibly.

    :param stream: the name of the stream, which need not exist yet
    :param conn_id: a connection of type ``cdc``
    :param poll_interval: the time between two polls of all streams; a stream whose table has a new
        commit is polled at once. Streams of one connection with the same interval share a poll
    :param repeat_after: wake again if data still waits this long after the last event; a stream
        that cannot be read wakes again at this interval
    :raises InvalidName: ``stream`` is not the name of a stream
    :raises InvalidRequest: a duration is invalid, or an argument has the wrong type
    """
    uri = stream_uri(stream, conn_id)
    trigger = StreamWatcherTrigger(
        stream=stream_key(stream),
        conn_id=conn_id,
        asset=uri,
        poll_interval=period_of(poll_interval, "poll_interval").total_seconds(),
        repeat_after=interval_of(repeat_after, "repeat_after").total_seconds(),
    )
    watcher = AssetWatcher(name="new data", trigger=trigger)
    return Asset(name=uri, uri=uri, group=GROUP, watchers=[watcher])


@validated_call
def consumption_asset(stream: str, *, conn_id: str = CdcHook.default_conn_name) -> Asset:
    """Return the consumptions of a stream as an asset. A DAG that is scheduled on it runs after
    each consumption.

    ``ConsumeStream``, ``ConsumeStreams`` and ``RecoverStream`` emit its events. The extra of an
    event describes the consumption: ``consumption_id``, ``consumer``, ``after_version``
    (exclusive), ``through_version`` (inclusive), ``through_timestamp`` (when that version was
    committed, ISO 8601) and ``rows``.

    :raises InvalidName: ``stream`` is not the name of a stream
    :raises InvalidRequest: an argument is not text
    """
    uri = consumptions_uri(stream, conn_id)
    return Asset(name=uri, uri=uri, group=GROUP)


@validated_call
def upsert_table_asset(table: str, *, conn_id: str = CdcHook.default_conn_name) -> Asset:
    """Return an upsert table as an asset. A DAG that is scheduled on it runs after changes were
    applied.

    ``ApplyUpserts`` emits its events, with the extra of :func:`consumption_asset`.

    :param table: the name or path that the table was created with
    :raises InvalidName: ``table`` does not name a table, or is too long for an asset
    :raises InvalidRequest: an argument is not text
    """
    of = "" if conn_id == DEFAULT_CONN_ID else f" of {conn_id}"
    uri = upsert_table_uri(table, conn_id)
    return Asset(name=f"upsert table {table}{of}", uri=uri, group=GROUP)


def create_asset(*, stream: str, conn_id: str, extra: dict[str, Any] | None = None) -> Asset:
    """Return a stream as an asset without a watcher, for Airflow's collector of lineage."""
    uri = stream_uri(stream, conn_id)
    return Asset(name=uri, uri=uri, group=GROUP, extra=extra)


def announce(
    context: Context,
    conn_id: str,
    outcomes: Sequence[Outcome],
    outlets: Sequence[Any],
    *,
    upsert_table: str | None = None,
) -> None:
    """Emit the asset events of consumptions: one for each stream whose rows were consumed.

    The events of the assets in ``outlets`` list the consumed streams in their extra.

    :param outcomes: those of all consumptions of the task
    :param upsert_table: the upsert table whose changes were consumed
    """
    events = context.get("outlet_events")
    if events is None:
        return
    consumed = [
        (outcome, stream)
        for outcome in outcomes
        for stream in outcome.streams
        if any(stream.rows.values())
    ]
    for outcome, stream in consumed:
        if upsert_table is None:
            asset = consumption_asset(stream.name, conn_id=conn_id)
        else:
            asset = upsert_table_asset(upsert_table, conn_id=conn_id)
        events[CONSUMPTIONS].add(asset, extra=_extra(outcome, stream))
    for outlet in outlets:
        if isinstance(outlet, Asset):
            events[outlet].extra["consumed"] = [
                {"stream": stream.name} | _extra(outcome, stream) for outcome, stream in consumed
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
