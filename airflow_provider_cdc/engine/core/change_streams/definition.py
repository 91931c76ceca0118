"""A change stream: what it watches, what its clock has sealed, and how its keys are partitioned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from ..figures import counted
from ..summaries import names_text, place_text
from .clock import SourceCommit, StampedCommit, tick
from .layout import Layout, LayoutStep
from .stamps import moment_of, stamp_text
from .tokens import TokenKey
from .value_capture import ModType, ValueCaptureType
from .watches import WatchedTable

_MICROSECOND = timedelta(microseconds=1)
# How often within the retention period old records are removed.
_REMOVALS = 12


class Int64As(StrEnum):
    """How the JSON of records shows whole numbers.

    Spanner's service sends ``INT64`` as JSON strings, because JavaScript reads JSON numbers
    inexactly. Its documentation prints them as numbers.
    """

    STRING = "string"
    NUMBER = "number"


class OnDuplicateKey(StrEnum):
    """What to do with rows that have the same key after a commit.

    ``fail`` stops the capture before anything of the commit is written. ``quarantine`` keeps these
    rows apart, and no record has them.
    """

    FAIL = "fail"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """What the records of a change stream hold, and how long they are kept.

    ``target_rows`` is how many changed rows an advance should capture of each partition. ``None``:
    no partition is split or merged by load.
    """

    value_capture_type: ValueCaptureType = ValueCaptureType.OLD_AND_NEW_VALUES
    retention: timedelta = timedelta(days=1)
    excluded: tuple[ModType, ...] = ()
    int64_as: Int64As = Int64As.STRING
    on_duplicate_key: OnDuplicateKey = OnDuplicateKey.FAIL
    target_rows: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeStream:
    """The whole state of a change stream.

    ``created_at`` is the stamp before its first record. Every later commit gets a stamp after
    ``through``. ``steps`` are those of its layout. ``pending`` are the commits that a tick sealed
    and that are not captured yet. ``capturing`` is the stamp through which a capture writes now, or
    wrote before it was killed. Records before ``expired`` were removed.
    """

    stream_id: str
    name: str
    owner: str
    secret: str
    created_at: int
    settings: CaptureSettings
    tables: tuple[WatchedTable, ...]
    steps: tuple[LayoutStep, ...]
    through: int
    pending: tuple[StampedCommit, ...] = ()
    capturing: int | None = None
    expired: int = 0
    comment: str | None = None
    is_dropped: bool = False

    def __repr__(self) -> str:
        tables = names_text((place_text(table.name) for table in self.tables), "tables")
        return (
            f"<ChangeStream {self.name} on {tables or 'no tables'},"
            f" {counted(len(self.layout.open), 'partition')}, captured through"
            f" {stamp_text(self.captured)}>"
        )

    @property
    def subject(self) -> str:
        """The subject of messages."""
        return f"change stream {self.name}"

    @property
    def created(self) -> datetime:
        """The first moment that a reader can begin with."""
        return moment_of(self.created_at)

    @property
    def layout(self) -> Layout:
        """The partitions over time."""
        return Layout(self.subject, self.steps)

    @property
    def token_key(self) -> TokenKey:
        """What makes and checks its partition tokens."""
        return TokenKey(self.subject, self.stream_id, bytes.fromhex(self.secret))

    @property
    def captured(self) -> int:
        """The stamp through which every record can be read."""
        return self.pending[0].stamp - 1 if self.pending else self.through

    def oldest_at(self, now: int) -> int:
        """The first stamp that a reader can begin with; Spanner: within the retention period.

        :param now: the stamp of this moment
        """
        kept = self.settings.retention // _MICROSECOND
        # A longer retention period brings nothing back.
        return max(self.created_at, self.expired, now - kept)

    def is_expiring_at(self, now: int) -> bool:
        """Whether enough is older than the retention period to remove it.

        :param now: the stamp of this moment
        """
        share = self.settings.retention // _MICROSECOND // _REMOVALS
        return self.oldest_at(now) >= max(self.expired, self.created_at) + share

    def expired_before(self, before: int) -> ChangeStream:
        """The state after every record before a stamp was removed."""
        steps = self.layout.since(before).steps
        return replace(self, expired=max(self.expired, before), steps=steps)

    def dropped(self) -> ChangeStream:
        """The state after it was dropped."""
        return replace(self, is_dropped=True)

    def ticked(self, commits: Sequence[SourceCommit], now: int) -> ChangeStream:
        """The state after a tick that sealed ``commits``.

        :param commits: all commits of its tables after those that are sealed
        :param now: the stamp of this moment
        """
        sealed = tick(commits, self.through, now)
        newest = {commit.table: commit.version for commit in sorted(commits)}
        tables = tuple(
            replace(table, sealed=newest.get(table.source.table_id, table.sealed))
            for table in self.tables
        )
        pending = (*self.pending, *sealed.commits)
        return replace(self, tables=tables, pending=pending, through=sealed.through)

    def next_step_at(self, now: int) -> int:
        """The moment of a new step of the layout: after everything that is sealed.

        :param now: the stamp of this moment
        """
        return max(self.through + 1, now)

    def with_layout(self, layout: Layout) -> ChangeStream:
        """The state with a layout whose new steps are at :meth:`next_step_at`."""
        return replace(self, steps=layout.steps, through=layout.steps[-1].at)

    def after_capture(self, through: int) -> ChangeStream:
        """The state after every record up to the stamp ``through`` was captured."""
        done = [each.commit for each in self.pending if each.stamp <= through]
        newest = {commit.table: commit.version for commit in sorted(done)}
        tables = tuple(
            replace(table, captured=newest.get(table.source.table_id, table.captured))
            for table in self.tables
        )
        pending = tuple(each for each in self.pending if each.stamp > through)
        return replace(self, tables=tables, pending=pending, capturing=None)
