"""A change stream as an asset whose events are its advances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from airflow_provider_cdc.engine.core.arguments.validation import validated_call
from airflow_provider_cdc.hooks.cdc import CdcHook

from .stream import GROUP
from .uri import change_stream_uri

if TYPE_CHECKING:
    from airflow.sdk import Context

ADVANCES = AssetAlias("cdc_advances", group=GROUP)
"""The outlet that tasks use to announce the advance of any change stream."""

_EXTRA = ("change_stream", "captured_through", "partitions")


@validated_call
def change_stream_asset(change_stream: str, *, conn_id: str = CdcHook.default_conn_name) -> Asset:
    """Return a change stream as an asset. A DAG that is scheduled on it runs after each advance.

    ``AdvanceChangeStream`` emits its events. The extra of an event has ``change_stream``,
    ``captured_through`` (every record up to that moment can be read, ISO 8601) and ``partitions``
    (how many are open). An event only wakes a DAG: it may be lost while the DAG is paused. The
    consumer's ledger alone determines what is read.

    :param change_stream: the name of the change stream, which need not exist yet
    :param conn_id: a connection of type ``cdc``
    :raises InvalidName: ``change_stream`` is not the name of a change stream
    :raises InvalidRequest: an argument is not text
    """
    uri = change_stream_uri(change_stream, conn_id)
    return Asset(name=uri, uri=uri, group=GROUP)


def announce_advance(context: Context, conn_id: str, result: Mapping[str, Any]) -> None:
    """Emit the asset event of an advance.

    :param result: what the operator returns of the change stream
    """
    events = context.get("outlet_events")
    if events is not None:
        asset = change_stream_asset(result["change_stream"], conn_id=conn_id)
        events[ADVANCES].add(asset, extra={name: result[name] for name in _EXTRA})
