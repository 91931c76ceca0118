"""Points in the history of a source: a version, a time, or the offset of another stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..errors import InvalidName, InvalidRange, InvalidRequest
from ..names import stream_name

_FORMS = 'Version(3), Timestamp("2026-01-01T00:00:00Z") or OffsetOf("other_stream")'


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a Delta table.

    :raises InvalidRange: ``number`` is negative or not a whole number
    """

    number: int

    def __post_init__(self) -> None:
        """Refuse a number that cannot be a version."""
        if type(self.number) is not int or self.number < 0:
            raise InvalidRange(
                f"version {self.number!r}",
                "is not a version of a table",
                cause="expected a whole number, 0 or more",
                fix=_fix(
                    "version",
                    self.number,
                    "see DESCRIBE HISTORY for the existing versions",
                ),
            )


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment, as an ISO 8601 text or a ``datetime``, with its offset from UTC.

    Without an offset, each reader can understand 9 o'clock as another moment.

    :raises InvalidRange: ``text`` is not a moment, or has no offset
    """

    text: str | datetime

    def __post_init__(self) -> None:
        """Refuse a text that is not a moment."""
        _ = self.moment

    @property
    def moment(self) -> datetime:
        """The moment, in UTC."""
        found = self.text if isinstance(self.text, datetime) else _parsed(self.text)
        if found is None or found.tzinfo is None:
            raise InvalidRange(
                f"timestamp {self.text!r}",
                "is not a point in time",
                cause="expected a date and a time in ISO 8601 with an offset from UTC",
                fix=_fix(
                    "timestamp",
                    self.text,
                    "write it like 2026-01-01T00:00:00Z or 2026-01-01T09:00:00+09:00",
                ),
            )
        try:
            return found.astimezone(UTC)
        except OverflowError:
            raise InvalidRange(
                f"timestamp {self.text!r}",
                "is not a point in time",
                cause="it is outside the calendar",
                fix="name one in the years 1 to 9999 in UTC",
            ) from None


@dataclass(frozen=True, slots=True)
class OffsetOf:
    """The offset of another stream of the same source.

    :raises InvalidName: no stream can have that name
    """

    stream: str

    def __post_init__(self) -> None:
        """Refuse a text that cannot be the name of a stream."""
        try:
            stream_name(str(self.stream))
        except InvalidName as error:
            fix = _fix("offset_of", self.stream, error.fix)
            raise InvalidName(error.subject, error.problem, cause=error.cause, fix=fix) from None


Point = Version | Timestamp | OffsetOf
LONGEST_NUMBER = 18
"""The most digits of a number that is given as text."""
_KINDS: Mapping[str, type[Point]] = {
    "version": Version,
    "timestamp": Timestamp,
    "offset_of": OffsetOf,
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A point as a bound.

    If ``is_inclusive``, what happened exactly at the point is before the bound (``AT``). Otherwise
    it is after the bound (``BEFORE``).
    """

    point: Point
    is_inclusive: bool

    def __str__(self) -> str:
        """The bound as messages name it."""
        ((kind, value),) = as_mapping(self.point).items()
        return f"{'at' if self.is_inclusive else 'before'} {kind.replace('_', ' ')} {value}"


def bound_of(subject: str, at: Point | None, before: Point | None) -> Bound | None:
    """The bound that a caller gave as ``at`` or as ``before``. ``None``: the caller gave neither.

    :param subject: what is bounded, for the message
    :raises InvalidRequest: both are given, or one is not a point
    """
    given = [(point, is_at) for point, is_at in ((at, True), (before, False)) if point is not None]
    if len(given) > 1 or not all(isinstance(point, Point) for point, _ in given):
        raise InvalidRequest(
            subject,
            "cannot be bounded by these arguments",
            cause=f"expected a point for either at or before, found at={at!r}, before={before!r}",
            fix=f"give {_FORMS}",
        )
    return Bound(*given[0]) if given else None


def check_order(subject: str, start: Bound, end: Bound) -> None:
    """Refuse an end that is before the beginning, even if no commits are between them.

    Spanner: a change stream query whose end is before its start is the caller's error. The points
    themselves are compared, because two moments without a commit between them are one version of
    the table.

    :raises InvalidRange: the end is before the beginning
    """
    match start.point, end.point:
        case Version(first), Version(last):
            is_reversed = last < first
        case Timestamp() as first, Timestamp() as last:
            is_reversed = last.moment < first.moment
        case _:
            is_reversed = False
    if is_reversed:
        raise ends_before_it_begins(subject, f"{end} is before {start}")


def ends_before_it_begins(subject: str, cause: str) -> InvalidRange:
    """The error of a range whose end is earlier than its beginning."""
    return InvalidRange(
        subject,
        "cannot end before the beginning",
        cause=cause,
        fix="name an end that is not earlier than the beginning",
    )


def as_mapping(point: Point) -> dict[str, int | str]:
    """``point`` in its JSON form: its kind and its value."""
    match point:
        case Version(number):
            return {"version": number}
        case Timestamp():
            return {"timestamp": point.moment.isoformat()}
        case OffsetOf(stream):
            return {"offset_of": stream}


def point_of(given: Any) -> Point | None:
    """The point that ``given`` is or describes.

    :param given: a point, or a mapping as :func:`as_mapping` returns it; its numbers may be text
    :raises InvalidRequest: ``given`` names no point, or more than one
    """
    if given is None or isinstance(given, Point):
        return given
    if not isinstance(given, Mapping) or len(given) != 1 or not set(given) <= set(_KINDS):
        raise InvalidRequest(
            f"point {given!r}",
            "is not a point in the history of a table",
            cause=f"expected one of the keys {', '.join(_KINDS)}",
            fix=f"give a mapping such as {{'version': 3}}, or {_FORMS}",
        )
    ((kind, value),) = given.items()
    if kind == "version" and isinstance(value, str):
        digits = value.strip()
        value = int(digits) if digits.isdecimal() and len(digits) <= LONGEST_NUMBER else value
    return _KINDS[kind](value)


def point_json(given: Any) -> dict[str, int | str] | None:
    """The JSON form of a point that a caller gives. ``None``: no point is given.

    :param given: as :func:`point_of` takes it
    :raises InvalidRequest: ``given`` names no point, or more than one
    """
    point = point_of(given)
    return None if point is None else as_mapping(point)


def _fix(kind: str, given: object, otherwise: str) -> str:
    """What to do about a value that is not such a point.

    It is ``otherwise`` if the value is not a template.
    """
    if isinstance(given, int | datetime) or (isinstance(given, str) and "{{" not in given):
        return otherwise
    return f"pass {{{kind!r}: ...}} to the operator instead: it renders templates in a mapping"


def _parsed(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.strip())
    except (AttributeError, ValueError):
        return None
