"""What a query of a change stream asks for, checked against the change stream."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ..arguments.points import Timestamp
from ..errors import InvalidPartitionToken, InvalidRange, InvalidRequest
from .definition import ChangeStream
from .layout import Partition
from .stamps import moment_of, stamp_of, stamp_text

LEAST_HEARTBEAT = 1_000
MOST_HEARTBEAT = 300_000


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A query of a change stream; the moments are stamps.

    ``end`` is inclusive; ``None`` reads until the partition ends. ``partition_token`` is ``None``
    for the first query of a reader.
    """

    start: int
    end: int | None
    partition_token: str | None

    @classmethod
    def of(
        cls,
        subject: str,
        start: str | datetime,
        end: str | datetime | None,
        partition_token: str | None,
        heartbeat_milliseconds: int,
    ) -> ReadRequest:
        """The request that a caller writes.

        :raises InvalidRequest: the heartbeat is out of its range
        :raises InvalidRange: a time is not a moment with an offset from UTC, or the end is before
            the start
        """
        if not LEAST_HEARTBEAT <= heartbeat_milliseconds <= MOST_HEARTBEAT:
            raise InvalidRequest(
                subject,
                f"cannot be read with heartbeat_milliseconds = {heartbeat_milliseconds}",
                cause=f"expected {LEAST_HEARTBEAT} to {MOST_HEARTBEAT}",
                fix="pass 10000 for one heartbeat every ten seconds",
            )
        begin = _stamp(start)
        last = None if end is None else _stamp(end)
        if last is not None and last < begin:
            raise InvalidRange(
                subject,
                "cannot be read to an end before its start",
                cause=f"start_timestamp is {stamp_text(begin)}, end_timestamp is"
                f" {stamp_text(last)}",
                fix="pass an end_timestamp that is not before start_timestamp",
            )
        return cls(begin, last, partition_token)

    @classmethod
    def bounded(
        cls,
        stream: ChangeStream,
        start: str | datetime | None,
        end: str | datetime | None,
        now: int,
    ) -> ReadRequest:
        """The request for all partitions between two times.

        :param start: by default the oldest records that are kept
        :param end: by default the newest ones
        :param now: the stamp of this moment
        :raises InvalidRange: as :meth:`of` and :meth:`check`
        """
        begin = moment_of(stream.oldest_at(now)) if start is None else start
        request = cls.of(stream.subject, begin, end, None, LEAST_HEARTBEAT)
        request.check(stream, now)
        return request

    def through(self, stream: ChangeStream) -> int:
        """The last stamp that the query can return now."""
        return stream.captured if self.end is None else min(stream.captured, self.end)

    def check(self, stream: ChangeStream, now: int) -> Partition | None:
        """The partition to read; ``None`` for the first query of a reader.

        Spanner: the start is within the retention period, not before the creation of the stream,
        and not in the future.

        :param now: the stamp of this moment
        :raises InvalidRange: the start is outside these bounds, or outside the partition's time
        :raises InvalidPartitionToken: the token is not one of this change stream
        """
        oldest = stream.oldest_at(now)
        # If a clock is fast, what was promised is later than now, and a reader goes on after it.
        latest = max(now, stream.through + 1)
        if not oldest <= self.start <= latest:
            what = "in the future" if self.start > latest else "no longer kept"
            if self.start < stream.created_at:
                what = "before the change stream was created"
            raise InvalidRange(
                stream.subject,
                f"cannot be read from {stamp_text(self.start)}, which is {what}",
                cause=f"expected {stamp_text(oldest)} to {stamp_text(latest)}",
                fix="pass a start_timestamp between these",
            )
        if self.partition_token is None:
            return None
        partition = stream.token_key.partition(self.partition_token)
        layout = stream.layout
        if not layout.holds(partition):
            raise InvalidPartitionToken(
                stream.subject,
                "cannot be read by this partition token",
                cause="its partition ended before the retention period",
                fix="begin again with partition_token=None",
            )
        end = layout.end_of(partition)
        if self.start < partition.start or (end is not None and self.start > end):
            until = "now" if end is None else stamp_text(end)
            raise InvalidRange(
                stream.subject,
                f"cannot be read from {stamp_text(self.start)} by this partition token",
                cause=f"its partition is from {stamp_text(partition.start)} to {until}",
                fix="pass a start_timestamp between these, such as the start_timestamp of the child"
                " partitions record that returned the token",
            )
        return partition


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """What a query of one partition returns: its records from ``begin`` to ``through``, inclusive
    stamps, and then its children or a heartbeat at ``through``.
    """

    partition: Partition
    begin: int
    through: int
    is_finished: bool


def planned(stream: ChangeStream, request: ReadRequest, partition: Partition) -> PlannedRead:
    """What a query returns of a partition now.

    Spanner: it ends after all records up to the end, or after the child partitions records. Here a
    query without an end, or with an end that is not captured yet, ends with a heartbeat at the last
    captured moment.
    """
    captured = request.through(stream)
    closed = stream.layout.end_of(partition)
    # The partition's last moment is captured, and its end is within the query.
    is_finished = closed is not None and closed - 1 <= stream.captured
    if closed is not None and request.end is not None and closed > request.end:
        is_finished = False
    through = captured if closed is None else min(captured, closed - 1)
    return PlannedRead(partition, request.start, through, is_finished)


def _stamp(given: str | datetime) -> int:
    """The stamp of a time.

    Spark returns a time as a ``datetime`` without a time zone, in that of the process. So a reader
    can pass on what a record holds.
    """
    if isinstance(given, datetime) and given.tzinfo is None:
        given = given.astimezone(UTC)
    return stamp_of(Timestamp(given).moment)
