"""Change streams without Spark: list them, and hand out their partitions to consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from ..clock import utc_now
from ..core.arguments.intervals import interval_of
from ..core.arguments.validation import validated, validated_call
from ..core.change_streams.captures import RecordTimes
from ..core.change_streams.consumer import ConsumerProgress, ConsumerState, PartitionRead
from ..core.change_streams.definition import ChangeStream
from ..core.change_streams.ledger import Lease
from ..core.change_streams.read_request import ReadRequest
from ..core.change_streams.stamps import moment_of, stamp_of
from ..core.errors import InvalidRequest
from ..core.monitoring.change_stream_lines import ChangeStreamLine, change_stream_line
from ..core.names import consumer_name
from ..storage.files.stores import Files
from ..storage.registry.registry import Registry
from ..storage.sources.commit_clock import CommitClock
from ..storage.state.captures import Captures
from ..storage.state.change_stream_consumers import ChangeStreamConsumers
from ..storage.state.change_streams import ChangeStreams
from .change_stream_status import ChangeStreamStatus, status_of

_MICROSECOND = timedelta(microseconds=1)


@validated
class ChangeStreamCatalog:
    """The change streams of one state folder, without a JVM.

    :param state: the state folder, a URI or an absolute path
    :param storage_options: how to reach the store
    :param clock: gives the time, in UTC
    """

    @validated_call
    def __init__(
        self,
        state: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        files = Files(storage_options)
        self._streams = ChangeStreams(state, files)
        self._consumers = ChangeStreamConsumers(self._streams, files)
        self._captures = Captures(self._streams, files)
        registry = Registry(state, storage_options=storage_options, clock=clock)
        self._commits = CommitClock(files, registry)
        self._clock = clock

    def list_change_streams(self) -> list[ChangeStream]:
        """All change streams, by name."""
        return self._streams.all()

    def find_change_stream(self, name: str) -> ChangeStream | None:
        """The change stream of that name; ``None``: there is no such change stream.

        :raises InvalidName: the name is not valid
        :raises StreamUnreadable: it cannot be read
        """
        return self._streams.find(name)

    def describe_change_streams(self) -> list[ChangeStreamStatus]:
        """The status of each change stream and of its consumers, by name.

        :raises StreamUnreadable: a change stream or a consumer cannot be read
        """
        return [self._status(stream) for stream in self._streams.all()]

    def change_stream_lines(self) -> list[ChangeStreamLine]:
        """What the page of streams shows of each change stream, by name. It reads no capture.

        :raises StreamUnreadable: a change stream or a consumer cannot be read
        """
        now = self._clock()
        return [
            change_stream_line(stream, self._consumers.all(stream), now)
            for stream in self._streams.all()
        ]

    def published_watermark(self, name: str, consumers: Sequence[str]) -> datetime:
        """The moment up to which each of several consumers has processed every record.

        Spanner: when all readers hold a moment, everything up to it is complete. So a reader of
        their targets that leaves out what is later sees whole transactions.

        :param consumers: one or more names
        :raises StreamNotFound: there is no such change stream
        :raises InvalidRequest: no consumer is named, or one has not begun
        """
        stream = self._streams.get(name)
        if not consumers:
            raise InvalidRequest(
                stream.subject,
                "has no watermark without a consumer",
                cause="consumers is empty",
                fix="name the consumers whose targets are read together",
            )
        states = [self._consumers.get(stream, consumer) for consumer in consumers]
        return moment_of(min(state.ledger.watermark for state in states))

    def list_partitions(
        self,
        name: str,
        consumer: str,
        *,
        start_timestamp: str | datetime | None = None,
        end_timestamp: str | datetime | None = None,
        holder: str = "",
        lease: timedelta | str = "PT1H",
        limit: int | None = None,
    ) -> list[PartitionRead]:
        """Hand out the partitions of a change stream that a consumer may read now.

        The first call of a consumer begins its ledger. Spanner: a child partition is read after all
        its parents. A partition without records moves on without a reader. Each read has a fixed
        range. If a reader crashes, the same range is handed out again when its lease has ended, or
        after :meth:`settle_partitions`.

        :param consumer: a stable name
        :param start_timestamp: where a new consumer begins; by default with the oldest records that
            are kept
        :param end_timestamp: where a new consumer ends, inclusive; by default never
        :param holder: who reads them, such as the id of a DAG run. It gets its own ones again,
            because an answer may be lost
        :param lease: how long nobody else gets them, as ``PT10M`` or a ``timedelta``
        :param limit: hand out at most this many
        :raises StreamNotFound: there is no such change stream
        :raises InvalidRequest: the limit is less than 1
        :raises InvalidRange: as for :meth:`read_change_stream`
        """
        length = interval_of(lease, "lease")
        if limit is not None and limit < 1:
            raise InvalidRequest(
                f"change stream {name}",
                f"cannot hand out {limit} partitions",
                cause="expected a limit of 1 or more",
                fix="pass limit=None for all that are ready",
            )
        consumer = consumer_name(consumer)
        stream, now = self._streams.get(name), stamp_of(self._clock())
        reads: list[PartitionRead] = []
        if self._consumers.find(stream, consumer) is None:
            start = _begun(stream, consumer, start_timestamp, end_timestamp, now).start
            if start > stream.through:
                # Later steps of the layout have to come after the start of the consumer.
                stream = self._streams.update(name, lambda known: self._commits.tick(known, start))

        def begun() -> ConsumerState:
            return _begun(stream, consumer, start_timestamp, end_timestamp, now)

        def handed_out(known: ConsumerState | None) -> ConsumerState:
            given = Lease(holder, now + length // _MICROSECOND)
            ready = self._without_empty_reads(stream, known or begun(), now, holder)
            state, found = ready.handed_out(stream, given, now, limit)
            reads[:] = found
            return state

        self._consumers.begin(stream, consumer, handed_out)
        return reads

    def ready_partitions(
        self,
        name: str,
        consumer: str,
        *,
        start_timestamp: str | datetime | None = None,
        end_timestamp: str | datetime | None = None,
        holder: str = "",
    ) -> int:
        """How many partitions :meth:`list_partitions` would hand out now. Nothing is written.

        :param consumer: a stable name; if it has not begun, those that it would begin with count
        :param start_timestamp: as for :meth:`list_partitions`, as the other parameters
        :raises StreamNotFound: there is no such change stream
        :raises StreamStale: records that the consumer has not read were removed
        :raises InvalidRange: as for :meth:`read_change_stream`
        """
        consumer = consumer_name(consumer)
        stream, now = self._streams.get(name), stamp_of(self._clock())
        known = self._consumers.find(stream, consumer) or _begun(
            stream, consumer, start_timestamp, end_timestamp, now
        )
        ready = self._without_empty_reads(stream, known, now, holder)
        return ready.count_ready(stream, now, holder)

    def settle_partitions(self, name: str, consumer: str, *, holder: str = "") -> ConsumerProgress:
        """Take back the partitions whose readers have ended, and return how far the consumer is.

        :param holder: whose readers have all ended
        :raises StreamNotFound: there is no such change stream
        :raises InvalidRequest: the consumer has not begun
        """
        stream, now = self._streams.get(name), stamp_of(self._clock())

        def settled(known: ConsumerState) -> ConsumerState:
            released = known.with_ledger(known.ledger.released(holder))
            return self._without_empty_reads(stream, released, now, holder)

        found = self._consumers.update(stream, consumer, settled)
        return found.progress(stream, self._unread(stream, found))

    def _status(self, stream: ChangeStream) -> ChangeStreamStatus:
        now = self._clock()
        kept = stream.oldest_at(stamp_of(now))
        captures = self._captures.between(stream, kept, stream.captured)
        return status_of(stream, self._consumers.all(stream), captures, now)

    def _unread(self, stream: ChangeStream, known: ConsumerState) -> RecordTimes:
        begin = known.ledger.watermark + 1
        return RecordTimes.of(self._captures.between(stream, begin, stream.captured))

    def _without_empty_reads(
        self, stream: ChangeStream, known: ConsumerState, now: int, holder: str
    ) -> ConsumerState:
        return known.without_empty_reads(stream, self._unread(stream, known), now, holder)


def _begun(
    stream: ChangeStream,
    consumer: str,
    start_timestamp: str | datetime | None,
    end_timestamp: str | datetime | None,
    now: int,
) -> ConsumerState:
    """The state of a consumer that begins now."""
    request = ReadRequest.bounded(stream, start_timestamp, end_timestamp, now)
    return ConsumerState.begun(consumer, stream, request.start, request.end)
