"""What one capture of a change stream wrote: its rows, and the records that they make.

A capture is published with one small file. Until then its rows are invisible, and after that they
never change. So everything that a record says of its transaction is known once, and no reader
counts anything.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from ..model.json_text import to_json
from .definition import Int64As
from .layout import Partition
from .stamps import MICROSECONDS_AN_HOUR
from .value_capture import ValueCaptureType

MODS_PER_RECORD = 1000
"""How many changed rows a record has at most, unless a single bucket of keys has more."""

QUARANTINED = "QUARANTINED"
"""The kind of change of rows that share a key with another row; no record has them."""

_DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A watched column: its name and place in the table, from 1 on.

    ``type`` is the JSON that describes its type to readers. ``stored_as`` is the Spark type of its
    captured values.
    """

    name: str
    ordinal: int
    is_key: bool
    type: str
    stored_as: str


@dataclass(frozen=True, slots=True)
class CapturedSource:
    """A watched table with the columns and settings under which its changes were captured."""

    table_name: str
    columns: tuple[CapturedColumn, ...]
    value_capture_type: ValueCaptureType
    int64_as: Int64As

    @property
    def source_id(self) -> str:
        """The same for equal sources, in all captures."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()[:_DIGEST_CHARACTERS]

    @property
    def keys(self) -> tuple[CapturedColumn, ...]:
        """The columns of the key."""
        return tuple(column for column in self.columns if column.is_key)

    @property
    def values(self) -> tuple[CapturedColumn, ...]:
        """The watched columns beside the key."""
        return tuple(column for column in self.columns if not column.is_key)


class CapturedCommit(NamedTuple):
    """A commit with captured changes: of which source it is, by its place in the capture."""

    source: int
    version: int
    stamp: int
    transaction_id: str


class CapturedGroup(NamedTuple):
    """Changed rows that differ only in their keys and values, and how many they are.

    ``first_bucket`` is the beginning of the partition that holds them. ``column_set`` has the
    places of the columns that ``column_types`` of their records has beside the key; ``*``: all.
    ``cuts`` has the buckets with which its second and later records begin.
    """

    stamp: int
    source: int
    version: int
    mod_type: str
    column_set: str
    first_bucket: int
    rows: int
    cuts: tuple[int, ...] = ()


class CapturedFile(NamedTuple):
    """A file of captured rows: its name in the folder of the capture, and its size."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Capture:
    """The captured changes between two stamps, both inclusive, with whole transactions.

    ``folder`` is the name of the folder of ``files``. ``is_compacted``: it was made of other ones.
    """

    begin: int
    through: int
    folder: str
    files: tuple[CapturedFile, ...]
    sources: tuple[CapturedSource, ...]
    commits: tuple[CapturedCommit, ...]
    groups: tuple[CapturedGroup, ...]
    is_compacted: bool = False

    def __repr__(self) -> str:
        return f"<Capture {self.begin}-{self.through}, {len(self.groups)} groups of records>"

    @property
    def quarantined(self) -> int:
        """How many rows are in quarantine."""
        return sum(group.rows for group in self.groups if group.mod_type == QUARANTINED)


@dataclass(frozen=True, slots=True)
class RecordGroup:
    """The records of a group of rows, and their place in their transaction.

    ``first_record`` is the sequence number of the first one of ``records``.
    ``has_last_record``: the last of them is the last one of the transaction in the partition.
    """

    source: CapturedSource
    group: CapturedGroup
    transaction_id: str
    records: int
    first_record: int
    records_in_transaction: int
    partitions_in_transaction: int
    has_last_record: bool

    def __repr__(self) -> str:
        return f"<RecordGroup of {self.records} records at {self.group.stamp}>"


def record_groups(capture: Capture) -> Iterator[RecordGroup]:
    """The records of a capture, in the order of their stamps and sequence numbers.

    Spanner: the sequence of records is unique and rises within a transaction, over all partitions.
    """
    shown = (group for group in capture.groups if group.mod_type != QUARANTINED)

    def order(group: CapturedGroup) -> tuple[int, str, int, int, str, str, int]:
        name = capture.sources[group.source].table_name
        return (group.stamp, name, *group[1:-2])

    transactions = {(each.source, each.version): each.transaction_id for each in capture.commits}
    for _, transaction in groupby(sorted(shown, key=order), key=lambda group: group.stamp):
        groups = list(transaction)
        counts = [len(group.cuts) + 1 for group in groups]
        last = {group.first_bucket: place for place, group in enumerate(groups)}
        first, total = 0, sum(counts)
        for place, (group, count) in enumerate(zip(groups, counts, strict=True)):
            yield RecordGroup(
                capture.sources[group.source],
                group,
                transactions[group.source, group.version],
                count,
                first,
                total,
                len(last),
                last[group.first_bucket] == place,
            )
            first += count


def compactable(captures: Sequence[Capture], before: int) -> list[list[Capture]]:
    """The captures of each hour, where there are several.

    An hour is compacted once, when every stamp in it is captured. So two processes that compact it
    at the same time publish captures of which one holds the other.

    :param captures: those that readers read now, in their order
    :param before: every stamp before it is captured
    """
    found: list[list[Capture]] = []
    for hour, within in groupby(captures, key=_hour):
        several = [*within]
        if hour is not None and hour < before // MICROSECONDS_AN_HOUR and len(several) > 1:
            found.append(several)
    return found


def _hour(capture: Capture) -> int | None:
    first, last = (at // MICROSECONDS_AN_HOUR for at in (capture.begin, capture.through))
    return first if first == last and not capture.is_compacted else None


def compacted(captures: Sequence[Capture], folder: str, files: tuple[CapturedFile, ...]) -> Capture:
    """Several captures as one, whose rows are in ``files``."""
    sources = list(dict.fromkeys(source for each in captures for source in each.sources))
    commits: list[CapturedCommit] = []
    groups: list[CapturedGroup] = []
    for each in captures:
        places = [sources.index(source) for source in each.sources]
        commits.extend(one._replace(source=places[one.source]) for one in each.commits)
        groups.extend(one._replace(source=places[one.source]) for one in each.groups)
    return Capture(
        captures[0].begin,
        captures[-1].through,
        folder,
        files,
        tuple(sources),
        tuple(commits),
        tuple(groups),
        is_compacted=True,
    )


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """The stamps of records, in order, by the first bucket of the partition that has them."""

    by_first_bucket: Mapping[int, Sequence[int]]

    @classmethod
    def of(cls, captures: Iterable[Capture]) -> RecordTimes:
        """Those of the records of ``captures``."""
        found: dict[int, set[int]] = {}
        for capture in captures:
            for group in capture.groups:
                if group.mod_type != QUARANTINED:
                    found.setdefault(group.first_bucket, set()).add(group.stamp)
        return cls({bucket: sorted(stamps) for bucket, stamps in found.items()})

    def has_any(self, partition: Partition, begin: int, through: int) -> bool:
        """Whether a partition has a record between two stamps, both inclusive and in its time."""
        stamps = self.by_first_bucket.get(partition.keys.low, ())
        place = bisect_left(stamps, begin)
        return place < len(stamps) and stamps[place] <= through


def covering(spans: Sequence[tuple[int, int]], begin: int, through: int) -> list[tuple[int, int]]:
    """Those of ``spans`` that together hold the stamps from ``begin`` to ``through`` once.

    A compaction publishes several captures as one. So spans may hold others, and the widest count.
    """
    found: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        is_held = bool(found) and span[1] <= found[-1][1]
        if not is_held and span[0] <= through and span[1] >= begin:
            found.append(span)
    return found
