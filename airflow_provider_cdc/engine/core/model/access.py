"""What each principal may do with a stream."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import overload

from ..arguments.validation import Kept
from ..errors import InvalidRequest, StreamAccessDenied
from ..names import consumer_name
from ..shown_values import shown
from .serialization import UnreadableStream
from .stream import Stream


class Right(StrEnum):
    """What a principal asks to do."""

    READ = "read"
    CONSUME = "consume"
    ABORT = "abort a consumption of"
    OWN = "change or drop"


_MOVES = frozenset({Right.CONSUME, Right.OWN})


@overload
def principals(names: Collection[str] | None) -> tuple[str, ...] | None: ...
@overload
def principals(names: Collection[str] | Kept | None) -> tuple[str, ...] | Kept | None: ...
def principals(names: object) -> tuple[str, ...] | Kept | None:
    """``names`` as a stream keeps them: each once, sorted. ``None`` and KEPT stay as they are.

    :raises InvalidName: one of them cannot be a principal
    :raises InvalidRequest: a text, or another single value, is given instead of several names
    """
    if names is None or isinstance(names, Kept):
        return names
    if isinstance(names, str) or not isinstance(names, Collection):
        found = "text" if isinstance(names, str) else "value"
        raise InvalidRequest(
            f"principals {shown(names)}",
            "are not a list",
            cause=f"expected several names, found one {found}",
            fix="write a list, such as ['ada', 'bob']",
        )
    return tuple(sorted({consumer_name(name) for name in names}))


def check_access(
    stream: Stream | UnreadableStream, principal: str, right: Right, *, for_upserts: bool = False
) -> None:
    """Refuse what ``principal`` may not do with ``stream``.

    The owner may do everything. Readers may read the stream. Consumers may read it and move its
    offset. If no readers are named, every principal is a reader. If no consumers are named, the
    readers are the consumers. Principals other than the owner may change or drop the stream only if
    neither readers nor consumers are named. Snowflake: a role needs a privilege on the stream
    itself, and on what the stream reads. Here the store and the catalog control access to what the
    stream reads.

    Only methods of upsert tables move or change the streams of upsert tables. Otherwise waiting
    changes would be lost, or applied twice. Every principal with the right may abort an open
    consumption. An abort moves no offset, and can unblock the table.

    If the record of the stream cannot be read, its owner, readers and consumers apply as far as
    they can be read.

    :param for_upserts: a method of upsert tables makes the check
    :raises StreamAccessDenied: the principal does not have the right; the message names both
    :raises InvalidRequest: the stream is that of an upsert table
    """
    if not _may(stream, principal, right):
        raise StreamAccessDenied(
            f"stream {stream.name}",
            f"{principal} may not {right.value} it",
            cause=f"it belongs to {stream.owner}, and does not name {principal} for this",
            fix=f"{_asked(stream, principal, right)}, or connect as a principal with this right",
        )
    if stream.upsert_table is not None and right in _MOVES and not for_upserts:
        raise InvalidRequest(
            f"stream {stream.name}",
            "cannot be moved or changed by itself",
            cause=f"the changes of the upsert table {stream.upsert_table} wait in it",
            fix="call apply_upserts, alter_upsert_table or drop_upsert_table with the table's name,"
            " or run the operators of these names",
        )


def _asked(stream: Stream | UnreadableStream, principal: str, right: Right) -> str:
    """What to ask the owner of ``stream`` for.

    A stream has no list of principals who may change it.
    """
    by = "with AlterStream or engine.alter_stream"
    if right is Right.OWN:
        return f"ask {stream.owner} to do it, or to make {principal} its owner {by}"
    return f"ask {stream.owner} to name {principal} {by}"


def _may(stream: Stream | UnreadableStream, principal: str, right: Right) -> bool:
    readers, consumers = stream.readers, stream.consumers
    if stream.owner in (principal, None) or (readers is None and consumers is None):
        return True
    if right is Right.OWN:
        return False
    if right is Right.READ:
        return readers is None or principal in readers or principal in (consumers or ())
    return principal in (readers or ()) if consumers is None else principal in consumers
