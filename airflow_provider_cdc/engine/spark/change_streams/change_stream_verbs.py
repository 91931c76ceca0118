"""The part of the engine for change streams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame

from ...core.arguments.validation import KEPT, Kept, validated
from ...core.change_streams.definition import (
    ChangeStream,
    Int64As,
    OnDuplicateKey,
)
from ...core.change_streams.query_text import read_call
from ...core.change_streams.read_request import ReadRequest, planned
from ...core.change_streams.spec import ChangeStreamSpec, settings_given
from ...core.change_streams.stamps import stamp_of
from ...core.change_streams.value_capture import ModType, ValueCaptureType
from ...core.change_streams.watches import Watch
from ...storage.sources.commit_clock import CommitClock
from ...storage.state.change_streams import ChangeStreams
from .alteration import Alteration, ChangeStreamAlteration
from .capturing import Capturing
from .creation import ChangeStreamCreation
from .key_buckets import KeyBuckets
from .rebalancing import Rebalancing
from .records import Records

_HEARTBEAT = 10_000


@validated
class ChangeStreamVerbs:
    """Change streams over several tables, captured once and read by partition."""

    def __init__(
        self,
        streams: ChangeStreams,
        creation: ChangeStreamCreation,
        capturing: Capturing,
        rebalancing: Rebalancing,
        keys: KeyBuckets,
        records: Records,
        commits: CommitClock,
        clock: Callable[[], datetime],
    ) -> None:
        self._streams = streams
        self._creation = creation
        self._capturing = capturing
        self._rebalancing = rebalancing
        self._keys = keys
        self._records = records
        self._commits = commits
        self._alteration = ChangeStreamAlteration(streams, creation, self.advance_change_stream)
        self._clock = clock

    def create_change_stream(
        self,
        name: str,
        tables: Mapping[str, Watch],
        *,
        value_capture_type: ValueCaptureType | str = ValueCaptureType.OLD_AND_NEW_VALUES,
        retention_period: timedelta | str = "1d",
        exclude_insert: bool = False,
        exclude_update: bool = False,
        exclude_delete: bool = False,
        partitions: int = 1,
        int64_as: Int64As | str = Int64As.STRING,
        on_duplicate_key: OnDuplicateKey | str = OnDuplicateKey.FAIL,
        target_rows: int | None = None,
        comment: str | None = None,
        or_replace: bool = False,
        if_not_exists: bool = False,
    ) -> ChangeStream:
        """Create a change stream on tables, from their newest versions on.

        Spanner: a change stream watches tables and columns of a database, and keeps records of
        their changes for a while. Here the records are captured by :meth:`advance_change_stream`.

        :param name: one identifier; names ignore case
        :param tables: what to watch of each table, by a catalog name or the path of a Delta table
        :param value_capture_type: ``OLD_AND_NEW_VALUES``, ``NEW_VALUES``, ``NEW_ROW`` or
            ``NEW_ROW_AND_OLD_VALUES``
        :param retention_period: how long records are kept, 1 to 7 days: ``1d``, ``36h``, ``P2D``
        :param exclude_insert: inserts give no records
        :param exclude_update: updates give no records
        :param exclude_delete: deletes give no records
        :param partitions: how many partitions it begins with, 1 to 1,024
        :param int64_as: how JSON shows whole numbers, as ``string`` or as ``number``
        :param on_duplicate_key: ``fail`` or ``quarantine``, if several rows have the same key
        :param target_rows: how many changed rows an advance should capture of each partition: it
            splits partitions that have more than twice as many, and merges neighbours that have
            less than half as many together. By default only :meth:`split_partition` and
            :meth:`merge_partitions` do that
        :param comment: a text that the list of change streams shows
        :param or_replace: drop a change stream of that name, with its records
        :param if_not_exists: leave a change stream of that name as it is, and return it
        :raises InvalidName: the name is not valid
        :raises InvalidRequest: the arguments contradict each other, or a table cannot be watched
        :raises StreamExists: a change stream has that name
        :raises TableNotFound: there is no such table
        :raises NotADeltaTable: it is not a Delta table
        """
        spec = ChangeStreamSpec.parsed(
            name=name,
            tables=tables,
            value_capture_type=value_capture_type,
            retention_period=retention_period,
            exclude_insert=exclude_insert,
            exclude_update=exclude_update,
            exclude_delete=exclude_delete,
            int64_as=int64_as,
            on_duplicate_key=on_duplicate_key,
            target_rows=target_rows,
            partitions=partitions,
            comment=comment,
            or_replace=or_replace,
            if_not_exists=if_not_exists,
        )
        return self._creation.create(spec)

    def alter_change_stream(
        self,
        name: str,
        *,
        tables: Mapping[str, Watch] | Kept = KEPT,
        value_capture_type: ValueCaptureType | str | Kept = KEPT,
        retention_period: timedelta | str | Kept = KEPT,
        exclude_insert: bool | Kept = KEPT,
        exclude_update: bool | Kept = KEPT,
        exclude_delete: bool | Kept = KEPT,
        int64_as: Int64As | str | Kept = KEPT,
        on_duplicate_key: OnDuplicateKey | str | Kept = KEPT,
        target_rows: int | Kept | None = KEPT,
        comment: str | Kept | None = KEPT,
    ) -> ChangeStream:
        """Change what a change stream watches, what its records hold, or how long they are kept.

        What was committed before is captured first, so its records stay as they are. A table that
        is added is watched from its newest version on.

        :param tables: all tables to watch from now on; the key of a table cannot change
        :param value_capture_type: as for :meth:`create_change_stream`, as the other parameters
        :raises StreamNotFound: there is no such change stream
        :raises InvalidRequest: a table cannot be watched, or a value is not accepted
        :raises StreamConflict: another process altered or advanced it at the same time
        """
        settings = settings_given(
            f"change stream {name}",
            self._streams.get(name).settings.excluded,
            excludes={
                ModType.INSERT: exclude_insert,
                ModType.UPDATE: exclude_update,
                ModType.DELETE: exclude_delete,
            },
            value_capture_type=value_capture_type,
            retention_period=retention_period,
            int64_as=int64_as,
            on_duplicate_key=on_duplicate_key,
            target_rows=target_rows,
        )
        return self._alteration.alter(
            name, Alteration(tables=tables, settings=settings, comment=comment)
        )

    def drop_change_stream(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a change stream and its records. The tables stay unchanged.

        :param if_exists: do nothing if there is no such change stream
        :raises StreamNotFound: there is no such change stream
        """
        self._creation.drop(name, if_exists=if_exists)

    def advance_change_stream(self, name: str) -> ChangeStream:
        """Seal what was committed to the tables of a change stream, and capture it.

        A tick gives each new commit a stamp that is unique and never goes back, and promises that
        later commits get later stamps. Then every change is captured exactly once, whatever is
        killed. Readers read what is captured. With ``target_rows``, partitions are split and merged
        after that.

        :raises StreamNotFound: there is no such change stream
        :raises StreamStale: a table is missing or was replaced, or changes that are not captured
            were removed
        :raises StreamConflict: another process advances it at the same time
        :raises InvalidRequest: several rows have the same key
        :raises StreamUnusable: a key column was dropped
        """
        begin = self._tick(name, self._now()).captured + 1
        captured = self._capturing.capture(name)
        return self._rebalancing.rebalance(captured, begin, self._now())

    def split_partition(
        self,
        name: str,
        partition_token: str,
        at: Mapping[str, Any] | None = None,
        table: str | None = None,
    ) -> ChangeStream:
        """Split a partition of a change stream, in the middle of its keys or at one of them.

        Spanner: a partition can split; its children take over its keys from a moment on.

        :param at: the value of each column of a key: the second part begins with its bucket, or the
            first part has only this bucket, if the partition begins with it
        :param table: the table of the key, if the change stream watches several
        :raises StreamNotFound: there is no such change stream
        :raises InvalidPartitionToken: it is not a token of this change stream
        :raises InvalidRequest: the partition is closed, has a single bucket of keys, or does not
            have the key
        """
        now = self._now()
        stream = self._tick(name, now - 1)
        partition = stream.token_key.partition(partition_token)
        keys = partition.keys
        bucket = keys.low + keys.size // 2
        if at is not None:
            bucket = max(self._keys.bucket_of(stream, table, at), keys.low + 1)
        return self._streams.update(
            name,
            lambda known: known.with_layout(
                known.layout.split(partition, bucket, known.next_step_at(now))
            ),
        )

    def merge_partitions(self, name: str, partition_tokens: Collection[str]) -> ChangeStream:
        """Merge neighbouring partitions of a change stream.

        Spanner: a partition can merge with others; their child takes over their keys from a moment
        on.

        :raises StreamNotFound: there is no such change stream
        :raises InvalidPartitionToken: one is not a token of this change stream
        :raises InvalidRequest: a partition is closed, or they are not neighbours
        """
        now = self._now()
        stream = self._tick(name, now - 1)
        merged = [stream.token_key.partition(token) for token in partition_tokens]
        return self._streams.update(
            name,
            lambda known: known.with_layout(known.layout.merge(merged, known.next_step_at(now))),
        )

    def read_change_stream(
        self,
        name: str,
        start_timestamp: str | datetime,
        end_timestamp: str | datetime | None = None,
        partition_token: str | None = None,
        heartbeat_milliseconds: int = _HEARTBEAT,
    ) -> DataFrame:
        """Query a change stream, or one of its partitions.

        Spanner: each row has one column ``ChangeRecord``, an array of one struct. One of its fields
        ``data_change_record``, ``heartbeat_record`` and ``child_partitions_record`` has one
        element, and the others are NULL. The first query has no token, and returns the tokens of
        the partitions that hold ``start_timestamp``. A query of a partition returns its records in
        the order of their commit timestamps, each once, and then its child partitions, if it was
        split or merged.

        The query returns what is captured now. If the partition did not end within that, its last
        row is a heartbeat: every record up to its timestamp was returned. Read on with the same
        token from the next microsecond.

        :param start_timestamp: records committed at that moment or later: an ISO 8601 text or a
            ``datetime``, with its offset from UTC. A ``datetime`` without one is in the time zone
            of this process, as Spark returns it
        :param end_timestamp: records committed at that moment or earlier
        :param partition_token: a token that a child partitions record returned
        :param heartbeat_milliseconds: how often a query of Spanner returns a heartbeat, 1,000 to
            300,000. Here a query returns at most one, at its end
        :raises StreamNotFound: there is no such change stream
        :raises InvalidRange: the start is before the creation, no longer kept or in the future, the
            end is before it, or it is outside the time of the partition
        :raises InvalidPartitionToken: it is not a token of this change stream
        :raises InvalidRequest: ``heartbeat_milliseconds`` is out of its range
        """
        request = ReadRequest.of(
            f"change stream {name}",
            start_timestamp,
            end_timestamp,
            partition_token,
            heartbeat_milliseconds,
        )
        stream = self._streams.get(name)
        partition = request.check(stream, self._now())
        if partition is not None:
            return self._records.partition(stream, planned(stream, request, partition))
        if request.start > stream.through:
            # Later steps of the layout have to come after this start.
            stream = self._tick(name, request.start)
        return self._records.first(stream, request.start)

    def query_change_stream(
        self, query: str, parameters: Mapping[str, Any] | None = None
    ) -> DataFrame:
        """Query a change stream in SQL; see :meth:`read_change_stream`.

        Spanner: the query is ``SELECT ChangeRecord FROM READ_<change stream>(start_timestamp =>
        ..., end_timestamp => ..., partition_token => ..., heartbeat_milliseconds => ...)``. It can
        neither join nor filter.

        :param parameters: the values of parameters that the query writes as ``@name``
        :raises InvalidStatement: the query has another shape
        """
        call = read_call(query, parameters or {})
        return self.read_change_stream(
            call.name,
            call.start_timestamp,
            call.end_timestamp,
            call.partition_token,
            call.heartbeat_milliseconds,
        )

    def change_records(
        self,
        name: str,
        start_timestamp: str | datetime | None = None,
        end_timestamp: str | datetime | None = None,
        *,
        group_by_transaction: bool = False,
    ) -> DataFrame:
        """The data change records of all partitions, each once, in the order of their transactions.

        With ``group_by_transaction``, each row is a whole transaction over all tables and
        partitions: ``commit_timestamp``, ``server_transaction_id`` and ``records``, an array of its
        records in their order. A row has to fit into memory.

        :param start_timestamp: as for :meth:`read_change_stream`; by default the oldest that are
            kept
        :param end_timestamp: as for :meth:`read_change_stream`; by default the newest
        :raises StreamNotFound: there is no such change stream
        :raises InvalidRange: as for :meth:`read_change_stream`
        """
        stream, now = self._streams.get(name), self._now()
        request = ReadRequest.bounded(stream, start_timestamp, end_timestamp, now)
        span = (request.start, request.through(stream))
        if group_by_transaction:
            return self._records.transactions(stream, *span)
        return self._records.all(stream, *span)

    def _tick(self, name: str, now: int) -> ChangeStream:
        """Seal what was committed, and promise that later commits come after ``now``."""
        return self._streams.update(name, lambda known: self._commits.tick(known, now))

    def _now(self) -> int:
        return stamp_of(self._clock())
