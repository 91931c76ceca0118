"""Stamps: moments of a change stream's clock, in whole microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MICROSECONDS_A_DAY = timedelta(days=1) // _MICROSECOND
MICROSECONDS_AN_HOUR = timedelta(hours=1) // _MICROSECOND


def stamp_of(moment: datetime) -> int:
    """The stamp of a moment.

    :param moment: with a time zone
    """
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(stamp: int) -> datetime:
    """The moment of a stamp, in UTC."""
    return _EPOCH + stamp * _MICROSECOND


def stamp_text(stamp: int) -> str:
    """A stamp as change streams write it: ``2022-09-27T12:30:00.123456Z``."""
    moment = moment_of(stamp)
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
