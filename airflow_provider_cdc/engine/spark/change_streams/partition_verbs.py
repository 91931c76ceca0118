"""The part of the engine for consumers of change streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from pyspark.sql import DataFrame

from ...core.arguments.intervals import interval_of
from ...core.arguments.one_or_several import one_or_several
from ...core.arguments.validation import validated
from ...core.change_streams.consumer import ConsumerProgress, PartitionRead
from .partition_consumption import PartitionConsumption


@validated
class PartitionVerbs:
    """Consumers of change streams, which read by partition."""

    def __init__(self, consumption: PartitionConsumption) -> None:
        self._consumption = consumption

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
        its parents. Each read has a fixed range. If a reader crashes, the same range is handed out
        again when its lease has ended, or after :meth:`settle_partitions`.

        :param consumer: a stable name
        :param start_timestamp: where a new consumer begins; by default with the oldest records that
            are kept
        :param end_timestamp: where a new consumer ends, inclusive; by default never
        :param holder: who reads them, such as the id of a DAG run
        :param lease: how long nobody else gets them, as ``PT10M`` or a ``timedelta``
        :param limit: hand out at most this many
        :raises StreamNotFound: there is no such change stream
        :raises InvalidRange: as for :meth:`read_change_stream`
        """
        length = interval_of(lease, "lease")
        bounds = (start_timestamp, end_timestamp)
        return self._consumption.hand_out(name, consumer, bounds, (holder, length), limit)

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
        :raises InvalidStatement: a statement cannot be parsed, or does not read the records
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

    def settle_partitions(self, name: str, consumer: str, *, holder: str = "") -> ConsumerProgress:
        """Take back the partitions whose readers have ended, and return how far the consumer is.

        :param holder: whose readers have all ended
        :raises StreamNotFound: there is no such change stream
        :raises InvalidRequest: the consumer has not begun
        """
        return self._consumption.settle(name, consumer, holder)
