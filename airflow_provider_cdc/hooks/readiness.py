"""Whether a stream may have data for its consumer: the one check of sensor and trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog


@dataclass(frozen=True, slots=True)
class ProbedStream:
    """What a check read of a stream: the versions of its source after ``offset_version``
    (exclusive) up to ``latest_version`` (inclusive).
    """

    stream_id: str
    offset_version: int
    latest_version: int


def readiness(
    catalog: StreamCatalog, stream: str, *, empty: ProbedStream | None = None
) -> ProbedStream | None:
    """What ``stream`` has to consume if it may have data, or None if it certainly has none. Reads
    logs only.

    A ``stale_after`` in the past is no error here. It is a prediction, and an error would keep the
    stream of a quiet source from ever being consumed again.

    :param empty: a range that is known to hold no change; any other range counts, such as that of
        the same stream after a rewind, or of another stream with its name
    :raises StreamNotFound: there is no such stream
    :raises StreamAccessDenied: the principal may not read it
    :raises StreamUnusable: the stream can no longer give an exact change set, and waiting cannot
        help; a table or a folder that is out of reach counts as missing
    """
    known = catalog.describe(stream)
    found = catalog.probe_stream(known)
    probed = ProbedStream(known.stream_id, found.offset_version, found.latest_version)
    return probed if found.may_have_data and probed != empty else None
