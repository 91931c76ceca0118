"""Whether a stream is worth waking its consumer for: the one check of sensor and trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog import StreamCatalog


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What a look saw of a stream: the versions of its source after ``offset_version`` (exclusive)
    up to ``latest_version`` (inclusive).
    """

    stream_id: str
    offset_version: int
    latest_version: int


def readiness(
    catalog: StreamCatalog, stream: str, *, empty: LookedAt | None = None
) -> LookedAt | None:
    """Where ``stream`` may have data, or None where it certainly has none. Reads logs only.

    That ``stale_after`` has passed is no error here: it is a prediction, and a quiet source would
    keep its stream from ever being consumed again.

    :param empty: what is known to hold nothing; anything else is another matter, such as the same
        stream after it was rewound, or another stream of its name
    :raises StreamNotFound: there is no such stream
    :raises StreamAccessDenied: the principal may not read it
    :raises StreamUnusable: the stream can no longer give an exact change set, and waiting cannot
        help (seed 000); a table or a folder that is out of reach is taken for one that is gone
    """
    known = catalog.describe(stream)
    found = catalog.look_at(known)
    looked = LookedAt(known.stream_id, found.offset_version, found.latest_version)
    return looked if found.may_have_data and looked != empty else None
