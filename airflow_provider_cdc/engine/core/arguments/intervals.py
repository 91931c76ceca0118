"""Lengths of time as users write and read them. One rule applies to every argument."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import overload

import pendulum
import sqlglot
from pendulum.parsing.exceptions import ParserError
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..errors import InvalidRequest
from ..figures import length_text
from ..shown_values import shown
from .validation import Kept

LONGEST = timedelta(days=36_500)
"""The longest length of time. A moment plus this length is still a moment."""

_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800}


def interval_of(given: object, name: str) -> timedelta:
    """The length of time that ``given`` names.

    :param given: ``INTERVAL 10 MINUTE``, ISO 8601 as in ``PT10M``, or a duration
    :param name: the name of the argument, for messages
    :raises InvalidRequest: ``given`` is not one of these, is negative, is longer than
        :data:`LONGEST`, or counts in months or years
    """
    length = _parsed(given) if isinstance(given, str) else _plain(given)
    if length is None or not timedelta(0) <= length <= LONGEST:
        raise InvalidRequest(
            f"{name} {shown(given)}",
            "is not a length of time",
            cause="expected INTERVAL with a number and SECOND, MINUTE, HOUR, DAY or WEEK, an ISO"
            " 8601 duration in weeks, days, hours, minutes and seconds, or a timedelta, not"
            f" negative, at most {LONGEST.days} days",
            fix="write INTERVAL 10 MINUTE, PT10M or timedelta(minutes=10)",
        )
    return length


def period_of(given: object, name: str) -> timedelta:
    """Like :func:`interval_of`, for the period of something that is repeated.

    :raises InvalidRequest: ``given`` is not a length of time, or is zero
    """
    length = interval_of(given, name)
    if not length:
        raise InvalidRequest(
            f"{name} {shown(given)}",
            "is not a period",
            cause="expected a length of time above zero",
            fix="write INTERVAL 10 MINUTE, PT10M or timedelta(minutes=10)",
        )
    return length


@overload
def interval_if_given(given: timedelta | str, name: str) -> timedelta: ...
@overload
def interval_if_given(given: None, name: str) -> None: ...
@overload
def interval_if_given(given: Kept, name: str) -> Kept: ...
def interval_if_given(given: timedelta | str | Kept | None, name: str) -> timedelta | Kept | None:
    """Like :func:`interval_of`. ``None`` and KEPT stay as they are.

    :raises InvalidRequest: ``given`` is not a length of time
    """
    return given if given is None or isinstance(given, Kept) else interval_of(given, name)


def interval_text(length: timedelta) -> str:
    """``length`` as BigQuery shows an interval, and in words: ``0-0 0 0:10:0 (10 minutes)``."""
    minutes, seconds = divmod(length.seconds, 60)
    fraction = f".{length.microseconds:06d}".rstrip("0") if length.microseconds else ""
    shown = f"0-0 {length.days} {minutes // 60}:{minutes % 60}:{seconds}{fraction}"
    return f"{shown} ({length_text(length)})"


def interval_iso(length: timedelta) -> str:
    """The exact ``length`` in ISO 8601, as a property stores it."""
    fraction = f".{length.microseconds:06d}" if length.microseconds else ""
    return f"P{length.days}DT{length.seconds}{fraction}S"


def _parsed(text: str) -> timedelta | None:
    if re.fullmatch(r"P.*\d.*", text.strip(), re.IGNORECASE):
        try:
            return _plain(pendulum.parse(text.strip(), exact=True))
        except (ParserError, ValueError, TypeError, OverflowError):
            return None
    try:
        parsed = sqlglot.parse_one(text, read="bigquery")
    except (SqlglotError, RecursionError):
        return None
    if not isinstance(parsed, exp.Interval) or not isinstance(parsed.this, exp.Literal):
        return None
    seconds = _UNITS.get(parsed.unit.name.upper() if isinstance(parsed.unit, exp.Var) else "")
    try:
        return None if seconds is None else int(parsed.this.name) * timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None


def _plain(given: object) -> timedelta | None:
    """A duration whose length does not depend on the calendar, as a plain ``timedelta``."""
    if isinstance(given, pendulum.Duration):
        return None if given.months or given.years else given.as_timedelta()
    if not isinstance(given, timedelta):
        return None
    # The result is a plain timedelta, because JSON does not know the subclasses of timedelta.
    return timedelta(days=given.days, seconds=given.seconds, microseconds=given.microseconds)
