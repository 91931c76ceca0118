"""Check whether a stream may have data for its consumer, for the sensor and the trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
    from airflow_provider_cdc.engine.core.model.stream import Stream


@dataclass(frozen=True, slots=True)
class ProbedStream:
    """The range of a stream that a check probed: the versions of its source after
    ``offset_version`` (exclusive) up to ``latest_version`` (inclusive).
    """

    stream_id: str
    offset_version: int
    latest_version: int


def readiness(
    catalog: StreamCatalog, stream: str, *, empty: ProbedStream | None = None
) -> ProbedStream | None:
    """Return the range that ``stream`` may have data in, or ``None`` if it certainly has no data.

    It reads only logs. A ``stale_after`` in the past is not an error here, because it is a
    prediction. An error would prevent any later consumption of a stream on a quiet source.

    :param empty: a range that is known to have no change. Any other range may have data, for
        example the range of the same stream after a rewind, or of another stream with its name
    :raises StreamNotFound: there is no such stream
    :raises StreamAccessDenied: the principal may not read it
    :raises StreamUnusable: the stream can no longer return an exact change set, and waiting cannot
        help; a table or a folder that cannot be reached counts as missing
    """
    return probed_range(catalog, catalog.get_stream(stream), empty=empty)


def probed_range(
    catalog: StreamCatalog, stream: Stream, *, empty: ProbedStream | None = None
) -> ProbedStream | None:
    """Return the same as :func:`readiness`, for a stream that was read already.

    :raises StreamAccessDenied: the principal may not read it
    :raises StreamUnusable: as for :func:`readiness`
    """
    found = catalog.probe_of(stream)
    probed = ProbedStream(stream.stream_id, found.offset_version, found.latest_version)
    return probed if found.may_have_data and probed != empty else None
