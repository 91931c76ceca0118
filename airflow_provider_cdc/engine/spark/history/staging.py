"""The events of queries and snapshots: they wait in a table that a stream reads.

So they are applied exactly once, like the changes of any stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...core.history.events import KIND, ORDER, REASON, SEQUENCE
from ...core.model.stream import METADATA_COLUMNS, ColumnStyle, StreamMode
from ...core.model.stream_spec import StreamSpec
from ...core.names import quote
from ...storage.registry.registry import Registry
from ..session.idempotent_writes import plain_write
from ..streams.creation import Creation
from ..tables.log_stores import warn_of_one_driver
from .history_target import HistoryTarget
from .source_rows import place_of
from .target_tables import HistoryTables

_ROW_ID = METADATA_COLUMNS[ColumnStyle.SNOWFLAKE].row_id


@dataclass(frozen=True, slots=True)
class Staging:
    """The waiting events of the history targets of one session."""

    tables: HistoryTables
    creation: Creation
    registry: Registry

    def stage(self, target: HistoryTarget, events: DataFrame) -> None:
        """Let ``events`` wait."""
        self._prepare(target)
        warn_of_one_driver(events.sparkSession, target.incoming)
        columns = (*map(quote, target.shape.data), SEQUENCE, KIND, REASON)
        rows = events.select(*columns)
        with plain_write(events.sparkSession):
            rows.write.format("delta").mode("append").save(target.incoming)

    def is_begun(self, target: HistoryTarget) -> bool:
        """Whether events ever waited for ``target``."""
        return self.registry.snapshot().find(target.stream) is not None

    def _prepare(self, target: HistoryTarget) -> None:
        self.tables.create_incoming(target)
        spec = StreamSpec(
            name=target.stream,
            on_table=target.incoming,
            mode=StreamMode.APPEND_ONLY,
            at={"version": 0},
            comment=f"events of {target.name} that are not applied; only apply_changes consumes it",
            if_not_exists=True,
        )
        self.creation.create(spec)


def staged_events(target: HistoryTarget, rows: DataFrame) -> DataFrame:
    """Rows that wait, or are about to wait, as events in their order."""
    place = place_of(_ROW_ID) if _ROW_ID in rows.columns else F.monotonically_increasing_id()
    order = F.struct(F.lit(0).cast("bigint").alias("version"), place.alias("row"))
    columns = (*map(quote, target.shape.data), SEQUENCE, KIND, REASON)
    return rows.select(*columns, order.alias(ORDER))
