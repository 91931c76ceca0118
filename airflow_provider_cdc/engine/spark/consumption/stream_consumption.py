"""The part of the engine that consumes streams."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager

from pyspark.sql import DataFrame, SparkSession

from ...catalog.stream_catalog import StreamCatalog
from ...consumption.attempts import Attempt, ConsumptionServices
from ...consumption.consumer import Consumer
from ...core.arguments.one_or_several import one_or_several
from ...core.arguments.validation import validated
from ...core.consumption.batches import BatchLimit
from ...core.errors import StreamConflict
from ...core.model.access import Right
from ...core.model.outcomes import Outcome
from ...core.model.stream import Stream
from ...core.names import table_name
from ...storage.state.query_results import Results
from ..reading.stream_reader import StreamReader
from ..tables.delta_tables import Tables
from .consuming_query import ConsumingQuery
from .recovery import Recovery
from .stream_views import SparkChangeSets
from .transactions import Transaction, transaction


@validated
class StreamConsumption:
    """Applies the changes of streams and moves these streams, exactly once."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: StreamCatalog,
        services: ConsumptionServices,
        change_sets: SparkChangeSets,
        reader: StreamReader,
        tables: Tables,
        results: Results,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._services = services
        self._change_sets = change_sets
        self._reader = reader
        self._tables = tables
        self._results = results

    def consume(
        self,
        statements: str | Sequence[str],
        *,
        consumer: str,
        max_commits: int | None = None,
        max_bytes: int | None = None,
    ) -> Outcome:
        """Apply DML that reads streams and move these streams, exactly once.

        Every statement sees the same records: from each stream's offset to the moment at which the
        consumption began. Either all streams move, or no stream moves. If the driver crashes, the
        next call of the same consumer finishes the consumption. A call of another consumer first
        commits or undoes it. Readers of several targets may see one changed before the other.

        :param statements: one, or several: INSERT, MERGE, UPDATE, DELETE or CREATE TABLE AS; they
            read streams by name
        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :param max_commits: take at most this many commits of each stream, and leave the rest for
            the next consumption
        :param max_bytes: take only the first commits that together added and removed at most this
            many bytes of files, but at least one commit
        :raises InvalidStatement: a statement cannot take part in a consumption; nothing was written
        :raises InvalidRequest: a stream is the stream of an upsert table
        :raises StatementFailed: a statement failed; nothing of the consumption remains
        :raises StreamConflict: another consumer moved a stream first
        :raises StreamAccessDenied: the principal may not consume a stream that is read
        :raises ConsumptionOpen: a failed consumption could not be undone
        """
        limit = BatchLimit(max_commits, max_bytes)
        texts = one_or_several(f"consumer {consumer}", "statements", statements)
        return Consumer(self._services, consumer, limit).consume(texts)

    def transaction(
        self, *, consumer: str, max_commits: int | None = None, max_bytes: int | None = None
    ) -> AbstractContextManager[Transaction]:
        """A block whose statements see the same records and consume them together, exactly once.

        ``with engine.transaction(consumer="c") as tx:`` begins the transaction. Each stream returns
        its records up to this moment, even if the block uses the stream later. The end of the block
        commits the transaction. If the block raises an exception, the transaction consumes nothing
        and undoes what was done. If the driver crashes, the next transaction of the same consumer,
        or the next consumer of one of its streams, undoes what is left.

        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :param max_commits: as for :meth:`consume`
        :param max_bytes: as for :meth:`consume`
        :raises StreamConflict: another consumer moved a stream first; nothing of the transaction
            remains
        :raises ConsumptionOpen: a failed transaction, or what an earlier attempt left, could not be
            undone
        """
        limit = BatchLimit(max_commits, max_bytes)
        return transaction(Attempt(self._services, consumer), self._change_sets, limit)

    def read_and_consume(
        self,
        query: str,
        *,
        consumer: str,
        max_commits: int | None = None,
        max_bytes: int | None = None,
    ) -> DataFrame:
        """Return the rows of a query, and move the streams that the query reads.

        Databend: a query WITH CONSUME consumes the streams that it reads.

        The call writes the rows to a result table below the state folder, and consumes them as
        :meth:`consume` does. Then it marks the table and returns its rows. Exactly once: of all
        calls of one consumer with one query, exactly one call gets each row. If a driver crashes
        before the mark, the next call gets its rows. If it crashes after the mark and before it
        used the rows, no call gets them again. The table stays until one day after the mark.

        :param query: SELECT; it reads streams by name
        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :param max_commits: as for :meth:`consume`
        :param max_bytes: as for :meth:`consume`
        :returns: the rows of the query, in no order, with the query's columns
        :raises InvalidStatement: it is not a query, reads no stream, or Spark refuses it
        :raises InvalidRequest: a stream is the stream of an upsert table
        :raises StatementFailed: the query failed; nothing was consumed
        :raises StreamConflict: another consumer moved a stream first
        :raises StreamAccessDenied: the principal may not consume a stream that is read
        """
        found = ConsumingQuery(self._spark, self._services, self._results, consumer, query)
        return found.rows(BatchLimit(max_commits, max_bytes))

    def recover_stream(
        self, name: str, target: str, key: str | Collection[str], *, consumer: str
    ) -> Outcome:
        """Make a target equal to the source of a stale stream, and move the stream to the source's
        newest version, in one consumption.

        The engine compares rows by ``key``, in all columns of the target. It compares values in the
        form in which these columns store them (Delta's store assignment, independent of the
        session's settings). It writes only rows that differ. The target of an append-only stream
        gets only the rows that it lacks.

        The stream may be stale because commits or files are missing, or because its source was
        recreated at the same location. The engine searches the source only there. If the table is
        at another location now, create its stream again (``or_replace``). If the driver crashes,
        the same call finishes the consumption.

        :param target: the name or path of a Delta table; the source must have all its columns, and
            all the fields in them
        :param key: the column or the columns that identify a row
        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not consume it
        :raises InvalidRequest: rows share a key, the source lacks a column or has one of a type
            that the target does not store, or the stream is on files or is the stream of an upsert
            table
        :raises ChangeTrackingDisabled: row tracking of the source is off now
        :raises StatementFailed: a value does not fit its column, or the target could not be
            changed; nothing of the consumption remains
        :raises StreamConflict: another consumer moved the stream first
        """
        found = Recovery(self._services, self._change_sets, self._reader, self._tables, consumer)
        return found.recover(name, target, key)

    def abort_consumption(self, name: str, *, keep: str | Collection[str] = ()) -> Stream:
        """End the open consumption of a stream without moving its offset.

        The engine undoes what was applied, except in the targets in ``keep``. These targets stay as
        they are, and the next consumption applies the same changes to them again.

        :param keep: the target, or the targets, as the statements name them
        :raises StreamConflict: no consumption is open
        :raises ConsumptionOpen: somebody else has written to a target that is not in ``keep``
        """
        stream = self._catalog.permitted(name, Right.ABORT)
        if stream.consumption is None:
            raise StreamConflict(
                f"stream {stream.name}",
                "has no open consumption to abort",
                cause=f"expected it to be applying or resolving, it is {stream.phase.value}",
                fix="nothing needs to be done",
            )
        named = one_or_several(f"stream {name}", "keep", keep)
        kept = {table_name(target).sql for target in named}
        self._services.resolution.abort(stream.consumption, self._catalog.principal, kept)
        return self._catalog.get_stream(name)
