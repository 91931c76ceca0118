"""The part of the engine that keeps copies and histories of sources."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from pyspark.sql import DataFrame

from ...core.arguments.points import Timestamp, Version
from ...core.arguments.validation import validated
from ...core.debezium.envelope import UNAVAILABLE, Payload
from ...core.history.options import (
    TOMBSTONE_HORIZON,
    Absent,
    Deleted,
    OnNull,
    OnTie,
)
from ...core.history.request import HistoryRequest
from ...core.model.outcomes import Outcome
from ...core.names import table_name
from .reads import HistoryReads, Moment
from .rebuilding import Rebuilding
from .sources import HistorySources


@validated
class HistoryVerbs:
    """Copies (SCD type 1) and histories (SCD type 2) of sources."""

    def __init__(
        self, sources: HistorySources, reads: HistoryReads, rebuilding: Rebuilding
    ) -> None:
        self._sources = sources
        self._reads = reads
        self._rebuilding = rebuilding

    def apply_changes(
        self,
        target: str,
        keys: str | Collection[str],
        *,
        consumer: str,
        stream: str | None = None,
        query: str | None = None,
        snapshot: str | None = None,
        scd_type: int = 1,
        sequence_by: str | Collection[str] | None = None,
        apply_as_deletes: str | None = None,
        apply_as_truncates: str | None = None,
        column_list: str | Collection[str] | None = None,
        except_column_list: str | Collection[str] | None = None,
        track_history_column_list: str | Collection[str] | None = None,
        track_history_except_column_list: str | Collection[str] | None = None,
        ignore_null_updates: bool | str | Collection[str] = False,
        start_column: str | None = None,
        end_column: str | None = None,
        open_end: str | None = None,
        current_column: str | None = None,
        current_view: str | None = None,
        deleted: Deleted | str = Deleted.CLOSE,
        tombstone_horizon: timedelta | str | None = TOMBSTONE_HORIZON,
        on_tie: OnTie | str | None = None,
        on_null: OnNull | str = OnNull.FAIL,
        snapshot_at: datetime | None = None,
        absent: Absent | str = Absent.DELETE,
        absent_scope: str | Collection[str] | None = None,
        payload: Payload | str | None = None,
        payload_schema: str | None = None,
        unavailable_value: str = UNAVAILABLE,
        cluster_by: str | Collection[str] | None = None,
        max_commits: int | None = None,
        max_bytes: int | None = None,
    ) -> Outcome | None:
        """Keep a copy of a source (SCD type 1), or its history (type 2), exactly once.

        The target is created if it does not exist, and follows columns that are added to the source
        later. Its rows are a function of the set of events that it got: the order in which they
        arrive, batches, events that come again and crashes make no difference. The names of the
        options are those of AUTO CDC in Databricks. Later calls pass the same options; only
        ``apply_as_deletes``, ``tombstone_horizon``, ``on_tie``, ``on_null``, ``absent``,
        ``absent_scope``, ``current_view`` and ``payload_schema`` may differ then.

        Give a ``stream``, a ``stream`` and a ``query`` of it, a ``query`` of tables, or a
        ``snapshot``.

        :param target: a catalog name or the path of a Delta table. For ``scd_type=1`` and a stream
            without ``sequence_by`` it may be a table that exists already
        :param keys: the columns that identify a row of the source
        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :param stream: a stream; what it returns is consumed
        :param query: SELECT. Its rows are events; with ``stream`` it reads the stream by name
        :param snapshot: the name or path of a Delta table, or a query: all rows of the source
        :param scd_type: 1 keeps the newest row of each key, 2 all versions
        :param sequence_by: what orders the events of a key: a column, an SQL expression, or several
            that are compared one after the other. By default the order of the commits of a stream,
            and then no event is late
        :param apply_as_deletes: an SQL condition of the events that delete their key; by default
            the deletes that the stream returns
        :param apply_as_truncates: an SQL condition of the events that end the rows of all keys
        :param column_list: the columns that the target has beside the keys; by default all
        :param except_column_list: all but these
        :param track_history_column_list: the columns whose change begins a new interval; by default
            all
        :param track_history_except_column_list: all but these
        :param ignore_null_updates: NULL means unchanged, in all columns or in these
        :param start_column: the name of the column of the sequence with which a row begins; by
            default ``__START_AT``. A target of type 1 has it if ``sequence_by`` is computed, or
            is not among the columns of the target
        :param end_column: the column of the sequence at which a row ends, exclusive; by default
            ``__END_AT``
        :param open_end: the value of ``end_column`` in a row that has not ended, such as
            ``9999-12-31``; by default NULL
        :param current_column: the name of a column that is true in rows that have not ended
        :param current_view: the name of a view of the rows that have not ended, with the columns of
            the source
        :param deleted: ``close`` ends the row of a deleted key. ``row`` also begins one with
            ``__DELETED`` true
        :param tombstone_horizon: how long events are remembered that no row shows, so that late
            events find them; ``None``: always
        :param on_tie: what happens if two events have one key, one sequence and different values.
            ``last`` keeps the one that comes later, and is the default with ``sequence_by``.
            ``fail`` is the default without it, since a commit has one row of each key.
            ``quarantine`` keeps the earlier one
        :param on_null: what happens to an event whose key or sequence is NULL: ``fail`` or
            ``quarantine``
        :param snapshot_at: the moment that a snapshot shows, with a time zone; by default the time
            of the newest commit of the table, or for a query now
        :param absent: whether a key that a snapshot lacks was deleted: ``delete`` or ``ignore``
        :param absent_scope: columns; a key that the snapshot lacks was deleted only if the snapshot
            has rows with the values that its row has in these columns
        :param payload: ``debezium``: the rows of the source hold messages of Debezium, with the
            columns ``before``, ``after``, ``op``, ``source`` and ``ts_ms``, or as JSON in a column
            ``value``. Keys and columns are those of the table that the messages are about.
            ``sequence_by`` is an expression over the message, by default the position in the log of
            the database, such as ``source.lsn``
        :param payload_schema: the columns of that table, such as ``id BIGINT, name STRING``, if the
            messages are JSON without a schema; by default those of the target
        :param unavailable_value: what messages have in the place of long values that did not
            change. These values stay as they are
        :param cluster_by: what a new target is clustered by; by default its keys
        :param max_commits: take at most this many commits of the stream
        :param max_bytes: take only the first commits that changed at most so many bytes of files
        :returns: ``None`` if the stream has no data, or the query no row
        :raises InvalidRequest: options contradict each other or those of the target, a column does
            not fit, an event has no key or no sequence, or two are tied; nothing was written
        :raises InvalidStatement: Spark refuses the query
        :raises StreamConflict: others kept taking the stream, or kept writing to the target
        :raises StreamAccessDenied: the principal may not consume the stream
        :raises StatementFailed: the target could not be written; nothing of it was applied
        """
        request = HistoryRequest.parsed(
            target=target,
            keys=keys,
            stream=stream,
            query=query,
            snapshot=snapshot,
            snapshot_at=snapshot_at,
            scd_type=scd_type,
            sequence_by=sequence_by,
            apply_as_deletes=apply_as_deletes,
            apply_as_truncates=apply_as_truncates,
            column_list=column_list,
            except_column_list=except_column_list,
            track_history_column_list=track_history_column_list,
            track_history_except_column_list=track_history_except_column_list,
            ignore_null_updates=ignore_null_updates,
            start_column=start_column,
            end_column=end_column,
            open_end=open_end,
            current_column=current_column,
            current_view=current_view,
            deleted=deleted,
            tombstone_horizon=tombstone_horizon,
            on_tie=on_tie,
            on_null=on_null,
            absent=absent,
            absent_scope=absent_scope,
            payload=payload,
            payload_schema=payload_schema,
            unavailable_value=unavailable_value,
            cluster_by=cluster_by,
            max_commits=max_commits,
            max_bytes=max_bytes,
        )
        return self._sources.apply(request, consumer)

    def read_scd(
        self,
        target: str,
        *,
        at: Moment | Sequence[Moment] | None = None,
        known_at: Version | Timestamp | None = None,
    ) -> DataFrame:
        """The rows of a history target: those that are current, or those that were valid at a
        moment.

        :param at: a value of the sequence; a list if the sequence has several parts. A row is valid
            from its start, inclusive, until its end, exclusive
        :param known_at: a version or a time of the target: what it showed then, also about earlier
            or later moments of its source
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not a history target, has no history, or ``at`` is no value of
            its sequence
        :raises InvalidRange: the target's log does not hold ``known_at``
        """
        return self._reads.read(table_name(target), at, known_at)

    def rebuild_history(
        self,
        target: str,
        archive: str,
        *,
        stream: str,
        consumer: str,
        query: str | None = None,
    ) -> Outcome:
        """Compute a history target anew from an archive of its source, in one commit. Readers see
        the rows before it or those after it.

        The call consumes what waits in the stream, so that the target holds the source up to the
        stream's new offset. The archive need not hold the newest commits: the rest is read from the
        table. If the driver crashes, the next call does it again.

        :param archive: the archive of the table that the stream is on
        :param stream: the stream that fills the target
        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :param query: the query with which :meth:`apply_changes` is called, if it is. The columns
            that mark a change are those of a feed: ``_change_type`` and others
        :raises TableNotFound: there is no such target, or no such archive
        :raises InvalidRequest: it is not a history target, its source is not a stream, or the
            archive is of another table
        :raises InvalidRange: commits after the archive are no longer in the table
        :raises StreamConflict: others kept moving the stream, or kept writing to the target
        :raises StreamAccessDenied: the principal may not consume the stream
        """
        return self._rebuilding.rebuild(target, archive, stream, query, consumer)
