"""Whether a stream is worth waking its consumer for: the one check of sensor and trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_cdc.engine.core.errors import StreamStale, StreamUnusable

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog import StreamCatalog
    from airflow_provider_cdc.engine.storage.source_log import StreamLook


def readiness(
    catalog: StreamCatalog, stream: str, *, after_version: int | None = None
) -> StreamLook | None:
    """Where ``stream`` may have data, or None where it certainly has none. Reads logs only.

    That ``stale_after`` has passed is no error here: it is a prediction, and a quiet source would
    keep its stream from ever being consumed again.

    :param after_version: a version of the source (inclusive) up to which it is known that there is
        nothing for the stream
    :raises StreamNotFound: there is no such stream
    :raises StreamStale: the stream can no longer give an exact change set (seed 000)
    """
    try:
        found = catalog.look(stream)
    except StreamUnusable as error:
        raise StreamStale(
            f"stream {stream}",
            "is stale",
            cause=str(error),
            fix="recreate the stream; waiting cannot help",
        ) from None
    if after_version is not None and found.latest_version <= after_version:
        return None
    return found if found.may_have_data else None
