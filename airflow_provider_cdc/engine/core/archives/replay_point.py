"""The version of a source whose rows an archive returns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..arguments.points import Timestamp, Version
from ..errors import InvalidRange, InvalidRequest
from ..model.sources import Offset
from ..names import moment_sql
from ..shown_values import shown
from .definition import COMMIT_TIMESTAMP, COMMIT_VERSION, Archive


@dataclass(frozen=True, slots=True)
class Reach:
    """The version of the source through which an archive holds every change, and its time.

    ``offset`` is the offset there, if the stream that fills the archive is known.
    """

    version: int
    timestamp: datetime
    offset: Offset | None = None


def replayed(archive: Archive, point: object, reach: Reach | None) -> str:
    """The condition on the changes in ``archive`` that lead to the rows at ``point``.

    :param point: a version or a time; ``None``: the newest version that the archive knows
    :raises InvalidRequest: the archive did not begin with all rows, or is not filled yet; or
        ``point`` is neither
    :raises InvalidRange: ``point`` is before the archive begins, or after it ends
    """
    first = archive.first_whole_version
    if first is None:
        raise InvalidRequest(
            archive.subject,
            "cannot return the rows of a version",
            cause=f"it holds the changes after version {archive.after}, and not the rows at that"
            " version",
            fix="create a new archive with bootstrap=True",
        )
    if reach is None:
        raise InvalidRequest(
            archive.subject,
            "holds nothing yet",
            cause="its first call of archive_changes did not finish",
            fix="run archive_changes",
        )
    match point:
        case None:
            return f"{COMMIT_VERSION} <= {reach.version}L"
        case Version(number):
            if not first <= number <= reach.version:
                found = f"it holds versions {first} to {reach.version}"
                raise _outside(archive, f"version {number}", found)
            return f"{COMMIT_VERSION} <= {number}L"
        case Timestamp():
            moment, begun = point.moment, archive.after_timestamp
            is_early = moment < begun and archive.after >= 0
            if is_early or moment > reach.timestamp:
                raise _outside(archive, str(moment), f"it holds {begun} to {reach.timestamp}")
            return f"{COMMIT_TIMESTAMP} <= {moment_sql(moment)}"
        case _:
            raise InvalidRequest(
                archive.subject,
                "cannot return the rows at this point",
                cause=f"expected a version or a time, found {shown(point)}",
                fix='pass as_of=Version(3) or as_of=Timestamp("2026-01-01T00:00:00Z")',
            )


def _outside(archive: Archive, wanted: str, held: str) -> InvalidRange:
    return InvalidRange(
        archive.subject,
        f"cannot return the rows at {wanted}",
        cause=held,
        fix="name a version or a time in between, or run archive_changes to continue the archive",
    )
