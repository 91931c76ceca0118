"""The Delta tables of a change stream: its captured changes, and what is known of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from ...core.change_streams.definition import ChangeStream
from ...core.names import quote
from ...storage.files.best_effort import log_failures
from ...storage.files.stores import Files, join
from ...storage.state.change_streams import ChangeStreams
from ..session.failures import reason
from ..session.idempotent_writes import plain_write
from .captured_rows import CAPTURE_COLUMNS, COMMIT_COLUMNS, QUARANTINED

_SAME_ID = "DELTA_CONCURRENT_TRANSACTION"
MODS_PER_RECORD = 1000
"""The most changed rows of a record. More rows of a transaction make more records."""

# What the changed rows of one record have in common.
GROUP = (
    "stamp",
    "version",
    "first_bucket",
    "table_name",
    "mod_type",
    "column_set",
)
# A transaction may have several versions of one table, and then a key more than once.
_ORDER = ("table_name", "version", "mod_type", "column_set", "first_bucket")
_OF_COMMIT = ("transaction_id", "column_types", "value_capture_type")
_RECORD_COLUMNS: Mapping[str, str] = {
    **{name: CAPTURE_COLUMNS[name] for name in GROUP},
    **{name: COMMIT_COLUMNS[name] for name in _OF_COMMIT},
    "records": "BIGINT",
    "first_record": "BIGINT",
    "records_in_transaction": "BIGINT",
    "partitions_in_transaction": "BIGINT",
    "has_last_record": "BOOLEAN",
}


@dataclass(frozen=True, slots=True)
class CaptureTables:
    """The tables of change streams in one state folder."""

    spark: SparkSession
    streams: ChangeStreams
    files: Files

    def create(self, stream: ChangeStream) -> None:
        """Create the empty tables of a new change stream."""
        for location, columns in (
            (self._changes(stream), CAPTURE_COLUMNS),
            (self._records(stream), _RECORD_COLUMNS),
        ):
            given = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            order = "bucket, stamp" if "bucket" in columns else "stamp"
            self.spark.sql(
                f"CREATE TABLE delta.{quote(location)} ({given}) USING delta CLUSTER BY ({order})"
            )

    def expire(self, stream: ChangeStream, before: int) -> None:
        """Remove the changes and records before a stamp, and compact the others."""
        for location in (self._changes(stream), self._records(stream)):
            table = f"delta.{quote(location)}"
            self.spark.sql(f"DELETE FROM {table} WHERE stamp < {before}")
            with log_failures(f"compacting {location}"):
                self.spark.sql(f"OPTIMIZE {table}")
                self.spark.sql(f"VACUUM {table}")

    def remove(self, stream: ChangeStream) -> None:
        """Remove the tables of a change stream."""
        for location in (self._changes(stream), self._records(stream)):
            self.files.remove_table(location)
        self.files.remove(self.streams.folder_of(stream))

    def changes(self, stream: ChangeStream) -> DataFrame:
        """The captured changes, without those in quarantine."""
        rows = self.spark.read.format("delta").load(self._changes(stream))
        return rows.where(F.col("mod_type") != QUARANTINED)

    def records(self, stream: ChangeStream) -> DataFrame:
        """One row for each group of records that have everything in common except their rows."""
        return self.spark.read.format("delta").load(self._records(stream))

    def write(
        self,
        stream: ChangeStream,
        rows: DataFrame,
        common: Sequence[tuple[Any, ...]],
        begin: int,
        through: int,
    ) -> None:
        """Write captured changes, and then what they make of records; each at most once.

        :param rows: the changes
        :param common: what the changes of each commit have in common
        :param begin: the stamp of the first one
        :param through: the stamp through which they are whole; it identifies this capture
        """
        self._append(stream, rows, self._changes(stream), through)
        written = self.changes(stream).where(F.col("stamp").between(begin, through))
        schema = ", ".join(f"{name} {kind}" for name, kind in COMMIT_COLUMNS.items())
        commits = F.broadcast(self.spark.createDataFrame(list(common), schema))
        groups = _groups(written).join(commits, ["table_name", "version"])
        self._append(stream, groups.select(*_RECORD_COLUMNS), self._records(stream), through)

    def _append(self, stream: ChangeStream, rows: DataFrame, location: str, through: int) -> None:
        writer = rows.write.format("delta").mode("append")
        writer = writer.option("txnAppId", f"change stream {stream.stream_id}")
        writer = writer.option("txnVersion", str(through))
        with plain_write(self.spark):
            try:
                writer.save(location)
            except Exception as error:  # pyspark has no class for this error of Delta
                # Another capture wrote the same rows under the same id at the same time.
                if _SAME_ID not in reason(error):
                    raise

    def _changes(self, stream: ChangeStream) -> str:
        return join(self.streams.folder_of(stream), "changes")

    def _records(self, stream: ChangeStream) -> str:
        return join(self.streams.folder_of(stream), "records")


def _groups(changes: DataFrame) -> DataFrame:
    """The groups of records of whole transactions, and the place of each in its transaction.

    Spanner: the sequence of records is unique and rises within a transaction, over all partitions.
    """
    rows = changes.groupBy(*GROUP).agg(F.ceil(F.count("*") / MODS_PER_RECORD).alias("records"))
    whole = Window.partitionBy("stamp")
    ordered = whole.orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, 0)
    so_far = F.sum("records").over(ordered)
    rows = rows.withColumn("_so_far", so_far)
    in_partition = Window.partitionBy("stamp", "first_bucket")
    return rows.select(
        *GROUP,
        "records",
        (F.col("_so_far") - F.col("records")).alias("first_record"),
        F.sum("records").over(whole).alias("records_in_transaction"),
        F.size(F.collect_set("first_bucket").over(whole))
        .cast("bigint")
        .alias("partitions_in_transaction"),
        (F.max("_so_far").over(in_partition) == F.col("_so_far")).alias("has_last_record"),
    )
