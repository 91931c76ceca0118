"""The part of the engine for consumers of change streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from ...core.arguments.one_or_several import one_or_several
from ...core.arguments.validation import validated
from ...core.change_streams.consumer import PartitionRead
from .partition_consumption import PartitionConsumption


@validated
class PartitionVerbs:
    """The reads of consumers of change streams."""

    def __init__(self, consumption: PartitionConsumption) -> None:
        self._consumption = consumption

    def consume_partition(
        self, name: str, consumer: str, partition_token: str, statements: str | Sequence[str]
    ) -> PartitionRead:
        """Apply statements to the records of a partition that was handed out, exactly once.

        Statements read the table ``mods``, with a row for each changed row, or ``records``, with a
        row for each data change record. They write to Delta tables. If a reader crashed after Delta
        applied a statement to the partition, the next reader skips the statement in its place.

        :param partition_token: a token that :meth:`list_partitions` returned
        :param statements: INSERT, MERGE, UPDATE or DELETE
        :raises StreamNotFound: there is no such change stream
        :raises InvalidPartitionToken: it is not a token of this change stream
        :raises InvalidRequest: the partition was not handed out, or is finished
        :raises InvalidStatement: a statement cannot be parsed or resolved, or does not read the
            records
        :raises StatementFailed: a statement failed; the partition is not done
        :raises TableNotFound: a target does not exist
        :raises NotADeltaTable: a target is not a Delta table
        """
        subject = f"change stream {name}"
        texts = one_or_several(subject, "statements", statements)
        return self._consumption.consume(name, consumer, partition_token, texts)

    def process_partition(
        self,
        name: str,
        consumer: str,
        partition_token: str,
        work: Callable[[DataFrame, PartitionRead], object],
    ) -> PartitionRead:
        """Call a function with the records of a partition that was handed out, at least once.

        If the function fails, or the driver crashes, the same records are handed out again. The
        columns ``server_transaction_id`` and ``record_sequence`` identify a record.

        :param partition_token: a token that :meth:`list_partitions` returned
        :param work: gets the data change records, in no order, and what was handed out
        :raises StreamNotFound: there is no such change stream
        :raises InvalidPartitionToken: it is not a token of this change stream
        :raises InvalidRequest: the partition was not handed out, or is finished
        """
        return self._consumption.process(name, consumer, partition_token, work)
