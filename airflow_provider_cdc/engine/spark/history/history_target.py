"""A history target: its table, its options, and the tables beside it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructType

from ...core.delta.columns import Column
from ...core.history.options import HistoryOptions
from ...core.history.shape import HistoryShape
from ...core.model.tables import Table
from ...core.names import quote
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ..tables.sql_types import columns_of

MEMORY, INCOMING = "/_cdc/memory", "/_cdc/incoming"
"""Where the tables beside a target are, below its root."""


@dataclass(frozen=True, slots=True)
class HistoryTarget:
    """A history target as it is now."""

    name: str
    table: Table
    options: HistoryOptions
    shape: HistoryShape
    schema: StructType
    table_id: str

    @property
    def subject(self) -> str:
        """The subject of messages."""
        return f"history target {self.name}"

    @property
    def sql(self) -> str:
        """The table as SQL, identified by its location."""
        return f"delta.{quote(self.table.location)}"

    @property
    def memory(self) -> str:
        """The root of the table of the events that no row of the target shows."""
        return f"{self.table.location}{MEMORY}"

    def has_memory(self, files: Files) -> bool:
        """Whether :attr:`memory` exists. Until an event has to be remembered, it does not."""
        return DeltaLog(self.memory, files).is_begun

    @property
    def data_columns(self) -> tuple[Column, ...]:
        """The columns that come from the source, in the order of the table."""
        own = set(self.shape.own)
        return tuple(each for each in columns_of(self.schema) if each.name not in own)

    @property
    def incoming(self) -> str:
        """The root of the table of the events of queries and snapshots that are not applied."""
        return f"{self.table.location}{INCOMING}"

    @property
    def stream(self) -> str:
        """The name of the stream on :attr:`incoming`."""
        return f"history_{self.table_id.replace('-', '_')}"
