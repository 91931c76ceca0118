"""Consumes by a query: keeps the rows in a result table before it returns them."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession

from ...consumption.attempts import ConsumptionServices
from ...consumption.consumer import Consumer
from ...core.consumption.batches import BatchLimit
from ...core.errors import CdcError, InvalidStatement
from ...core.model.access import Right, check_access
from ...core.model.consumption import Consumption
from ...core.names import TableName, consumer_name
from ...core.near_names import advice_on_tables
from ...core.sql.stream_queries import Query, analyse_query
from ...core.sql.stream_references import subject
from ...storage.state.query_results import Results

# With this mode, a table can have any column name that a query uses.
_PROPERTIES = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


class ConsumingQuery:
    """A query of one consumer that consumes the streams it reads; see ``Engine.read_and_consume``.

    Databend: streams are consumed by DML and by queries WITH CONSUME.
    """

    def __init__(
        self,
        spark: SparkSession,
        parts: ConsumptionServices,
        results: Results,
        consumer: str,
        sql: str,
    ) -> None:
        query = analyse_query(sql, ())
        if query is None:
            raise InvalidStatement(
                subject(sql),
                "is not a query",
                cause="expected SELECT, whose rows can be returned",
                fix="use engine.consume() for a statement that writes to a table",
            )
        self._spark = spark
        self._parts = parts
        self._results = results
        self._consumer = consumer_name(consumer)
        self._text = query.text

    def rows(self, limit: BatchLimit) -> DataFrame:
        """The consumed rows that no call has returned yet. If all were returned, consume now."""
        query, names = self._query()
        while True:
            root = self._finished() or self._consumed(query, names, limit)
            if self._results.hand_out(root):
                return self._spark.read.format("delta").load(root)

    def _query(self) -> tuple[Query, list[str]]:
        """The query and the names of all streams. The principal may consume the query's streams."""
        snapshot = self._parts.registry.snapshot()
        names = snapshot.names
        query = analyse_query(self._text, names)
        assert query is not None
        for name in query.streams:
            check_access(snapshot.get(name), self._parts.principal, Right.CONSUME)
        return query, names

    def _finished(self) -> str | None:
        """The oldest table whose rows were consumed by a call that did not return them."""
        return next(filter(self._is_finished, self._waiting()), None)

    def _consumed(self, query: Query, names: Collection[str], limit: BatchLimit) -> str:
        """The table with the rows that this call consumes, or finishes consuming."""
        if not query.streams:
            raise InvalidStatement(
                subject(self._text),
                "consumes nothing",
                cause="it reads no stream",
                fix=advice_on_tables(query.other_tables, names),
            )
        waiting, open_ones = self._waiting(), self._open_ones()
        # Finish a table that an earlier call began, else use an empty one that it left.
        begun = [
            root
            for root in waiting
            if any(root == planned.location for each in open_ones for planned in each.statements)
        ]
        root = next(iter(begun + waiting), None) or self._results.new(self._consumer, self._text)
        target = TableName(path=root).sql
        create = f"CREATE TABLE {target} USING delta {_PROPERTIES} AS\n{self._text}"
        try:
            Consumer(self._parts, self._consumer, limit).consume([create])
        except CdcError:
            # Somebody else may have committed it.
            if not self._is_finished(root):
                raise
        return root

    def _waiting(self) -> list[str]:
        """The tables that no call has returned, except those whose creation did not commit."""
        found = self._results.waiting(self._consumer, self._text)
        return [root for root in found if self._parts.targets.log.newest_version(root) >= 0]

    def _is_finished(self, root: str) -> bool:
        """Whether the table holds rows, and the offsets have moved past these rows."""
        log = self._parts.targets.log
        found = log.filled_by(root)
        if found is None or found in {each.consumption_id for each in self._open_ones()}:
            return False
        self._check_known(found)
        # The consumption has ended. If it was undone, the table shows that now.
        return log.filled_by(root) == found

    def _check_known(self, consumption_id: str) -> None:
        """Refuse to return rows whose consumption may be open in a stream that cannot be read.

        :raises StreamUnreadable: there is such a stream
        """
        for stream in self._parts.registry.snapshot().unreadable():
            consumption = stream.parts.get("consumption", consumption_id)
            if (
                stream.is_newer
                or consumption == consumption_id
                or (consumption and consumption.consumption_id == consumption_id)
            ):
                raise stream.error

    def _open_ones(self) -> list[Consumption]:
        streams = self._parts.registry.snapshot().streams()
        return [stream.consumption for stream in streams if stream.consumption]
