"""How long the records of a change stream are kept."""

from __future__ import annotations

import re
from datetime import timedelta

from ..arguments.intervals import interval_of
from ..errors import InvalidRequest
from ..figures import length_text
from ..shown_values import shown

_SHORTEST, _LONGEST = timedelta(days=1), timedelta(days=7)
_SPANNER = re.compile(r"(\d{1,9})([dhms])")


def retention_of(given: timedelta | str) -> timedelta:
    """The retention period that ``given`` names: 1 to 7 days (Spanner).

    :param given: ``1d``, ``36h``, ``INTERVAL 2 DAY``, ``P2D`` or a ``timedelta``
    :raises InvalidRequest: it is not a length of time, or is outside these bounds
    """
    found = _SPANNER.fullmatch(given) if isinstance(given, str) else None
    if found is not None:
        count, unit = found[1], found[2].upper()
        given = f"P{count}D" if unit == "D" else f"PT{count}{unit}"
    length = interval_of(given, "retention_period")
    if not _SHORTEST <= length <= _LONGEST:
        raise InvalidRequest(
            f"retention_period {shown(given)}",
            "is out of bounds",
            cause=f"expected 1 to 7 days, found {length_text(length)}",
            fix="pass 1d to 7d",
        )
    return length
