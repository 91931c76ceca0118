"""Whether a stream is worth waking its consumer for: the one check of sensor and trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_cdc.engine.core.errors import StreamStale

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog import StreamCatalog


@dataclass(frozen=True, slots=True)
class Readiness:
    """The range in which a stream may have data: ``offset_version`` (exclusive) to
    ``latest_version`` (inclusive) of its source.
    """

    offset_version: int
    latest_version: int


def readiness(
    catalog: StreamCatalog, stream: str, *, after_version: int | None = None
) -> Readiness | None:
    """Where ``stream`` may have data, or None where it certainly has none. Reads logs only.

    That ``stale_after`` has passed is no error here: it is a prediction, and a quiet source would
    keep its stream from ever being consumed again.

    :param after_version: a version of the source (inclusive) up to which it is known that there is
        nothing for the stream
    :raises StreamNotFound: there is no such stream
    :raises StreamStale: the stream can no longer give an exact change set (seed 000)
    """
    status = catalog.status(stream)
    if status.invalid_reason is not None or status.latest_version is None:
        raise StreamStale(
            f"stream {stream}",
            "is stale",
            cause=status.invalid_reason or "its source cannot be read",
            fix="recreate the stream; waiting cannot help",
        )
    if after_version is not None and status.latest_version <= after_version:
        return None
    if not status.may_have_data:
        return None
    return Readiness(status.offset_version, status.latest_version)
