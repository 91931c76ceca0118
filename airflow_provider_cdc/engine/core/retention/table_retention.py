"""How long a table keeps what its streams need, and the table properties that extend it.

Snowflake: while a stream is not consumed, the retention of its source is extended to the offset, up
to a limit. It goes back when the stream is consumed.

Delta keeps removed files for one period and commits for another. Each period is a table property,
and the shorter one counts. Other properties of the table hold what its owner had set, and each
extension. So one commit changes all of them together, and any number of state folders can extend
one table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pendulum
from rich.filesize import decimal

from ..arguments.intervals import LONGEST
from ..figures import counted, length_text
from ..summaries import names_text

FILES, LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
_DEFAULTS = {FILES: timedelta(days=7), LOG: timedelta(days=30)}
_OWN = "airflow_provider_cdc.retention.own."
_EXTENSION = "airflow_provider_cdc.retention.extended."
_UNSET = "default"
_INTERVAL = re.compile(
    r"(\d+)\s+(microsecond|millisecond|second|minute|hour|day|week)s?", re.IGNORECASE
)

Properties = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SourceRetention:
    """What maintenance found and did at one table that streams read.

    ``streams`` are those that need ``extension`` (``None``: the table keeps enough without one).
    ``own`` is the retention without the extension. ``bytes_kept`` are the bytes of the removed
    files that these streams can still read only because of the extension. ``has_changed``:
    properties of the table were changed. ``problem`` is why they could not be changed or read.
    """

    location: str
    own: timedelta | None
    extension: timedelta | None
    streams: tuple[str, ...]
    bytes_kept: int
    has_changed: bool
    problem: str | None = None

    def __repr__(self) -> str:
        if self.problem is not None:
            found = self.problem
        elif self.extension is None:
            found = "keeps enough by itself"
        else:
            streams = names_text(self.streams, "stream")
            found = f"extended to {length_text(self.extension)} for {streams}"
        return f"<SourceRetention {self.location}: {found}{', changed' * self.has_changed}>"


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What maintenance did. ``skipped`` names the empty streams whose offsets moved."""

    skipped: tuple[str, ...]
    sources: tuple[SourceRetention, ...]

    def __repr__(self) -> str:
        extended = sum(source.extension is not None for source in self.sources)
        problems = sum(source.problem is not None for source in self.sources)
        return (
            f"<Maintenance of {counted(len(self.sources), 'source')}: {extended} extended"
            f" ({decimal(self.bytes_kept)} kept), {problems} with a problem,"
            f" {counted(len(self.skipped), 'empty stream')} moved on>"
        )

    @property
    def bytes_kept(self) -> int:
        """What all extensions together cost: the bytes that are kept for them."""
        return sum(source.bytes_kept for source in self.sources)


def retention(properties: Properties) -> timedelta:
    """How long a table with these properties now keeps both files and commits."""
    return min(_length(name, properties.get(name)) for name in _DEFAULTS)


def own_retention(properties: Properties) -> timedelta:
    """How long the table would keep both files and commits without any extension.

    That is what its owner has set, or Delta's defaults.
    """
    return min(_length(name, text) for name, text in _own_settings(properties).items())


def log_retention(properties: Properties) -> timedelta:
    """How long a table with these properties now keeps commits."""
    return _length(LOG, properties.get(LOG))


def own_log_retention(properties: Properties) -> timedelta:
    """How long the table would keep commits without any extension."""
    return _length(LOG, _own_settings(properties)[LOG])


def extension_of(properties: Properties, holder: str) -> timedelta | None:
    """The extension that ``holder`` has made. ``None`` if it has not made one."""
    return _extensions(properties).get(holder)


def extended(
    properties: Properties, holder: str, length: timedelta | None
) -> dict[str, str | None]:
    """The changes of a table's properties that make or end the extension of ``holder``.

    A value of ``None`` means to unset the property. The function is idempotent: nothing changes if
    the properties are already right. Owners can still set Delta's two properties as they like. A
    value that the engine did not set is the owner's. It comes into force when no extension is
    longer.

    :param holder: who extends, a word of letters and digits
    :param length: the new extension; ``None``: ``holder`` no longer extends the retention
    """
    own = _own_settings(properties)
    held = {name: each for name, each in _extensions(properties).items() if name != holder}
    if length is not None and length > min(_length(name, text) for name, text in own.items()):
        held[holder] = length
    wanted: dict[str, str | None] = {
        f"{_EXTENSION}{holder}": _text(held[holder]) if holder in held else None
    }
    for name, text in own.items():
        wanted[name] = _in_force(name, text, held.values())
        wanted[_own_name(name)] = (text or _UNSET) if held else None
    changes = {name: text for name, text in wanted.items() if properties.get(name) != text}
    if any(changes.get(name) is not None for name in own):
        # Delta checks the two properties against each other within one statement, and uses the
        # default for a missing one.
        changes |= {name: wanted[name] for name in own if wanted[name] is not None}
    return changes


def without_extensions(properties: Properties) -> dict[str, str]:
    """The properties as the owner of the table has set them, for a copy that no stream reads."""
    found = {
        name: text for name, text in properties.items() if not name.startswith((_OWN, _EXTENSION))
    }
    for name, own in _own_settings(properties).items():
        found.pop(name, None)
        if own is not None:
            found[name] = own
    return found


def needed_extension(
    oldest: datetime | None,
    now: datetime,
    *,
    own: timedelta,
    limit: timedelta,
    ahead: timedelta,
) -> timedelta | None:
    """How far the retention of a source has to be extended for a stream. ``None``: not at all.

    It is extended to ``limit`` in one step, because each step is a commit that makes concurrent
    writers of the table fail and begin again. If the source's own retention does not last until the
    next check, the source stays extended, even if the stream has consumed all. The next change may
    come at once.

    :param oldest: the time of the oldest commit that the stream has not consumed; ``None``: it has
        consumed all
    :param own: the retention without extensions
    :param limit: the longest extension that the stream may have
    :param ahead: the longest time until the next check
    """
    if limit <= own or (oldest or now) + own > now + ahead:
        return None
    return limit


def _own_settings(properties: Properties) -> dict[str, str | None]:
    """The value that the owner of the table has set for each of Delta's properties.

    ``None``: the owner has set no value.
    """
    held = _extensions(properties).values()
    ours = {_text(length) for length in held}
    found: dict[str, str | None] = {}
    for name in _DEFAULTS:
        current = properties.get(name)
        kept = properties.get(_own_name(name), _UNSET)
        own = None if kept == _UNSET else kept
        is_ours = current in ours or current == _in_force(name, own, held)
        found[name] = own if held and is_ours else current
    return found


def _in_force(name: str, own: str | None, extensions: Collection[timedelta]) -> str | None:
    longest = max(extensions, default=timedelta(0))
    return own if _length(name, own) >= longest else _text(longest)


def _extensions(properties: Properties) -> dict[str, timedelta]:
    return {
        name.removeprefix(_EXTENSION): duration(text)
        for name, text in properties.items()
        if name.startswith(_EXTENSION)
    }


def _own_name(name: str) -> str:
    return f"{_OWN}{name.removeprefix('delta.')}"


def _length(name: str, text: str | None) -> timedelta:
    return _DEFAULTS[name] if text is None else duration(text)


def _text(length: timedelta) -> str:
    """The interval as Delta reads it, in whole seconds, rounded up."""
    return f"interval {-(-length // timedelta(seconds=1))} seconds"


def duration(text: str) -> timedelta:
    """The length of Delta's interval text, such as ``interval 7 days 12 hours``.

    It is at most the longest length of time, so that a moment plus the result is still a moment.
    """
    units = ("microseconds", "milliseconds", "seconds", "minutes", "hours", "days", "weeks")
    parts = dict.fromkeys(units, 0)
    for amount, unit in _INTERVAL.findall(text):
        parts[f"{unit.lower()}s"] += int(amount)
    thousands = parts.pop("milliseconds") * 1000
    parts["microseconds"] += thousands
    try:
        return min(pendulum.duration(**parts).as_timedelta(), LONGEST)
    except OverflowError:
        return LONGEST
