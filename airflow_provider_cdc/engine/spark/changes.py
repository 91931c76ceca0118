"""Changes of a table between two points of its history, without a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame

from ..core.errors import CdcError, InvalidRange
from ..core.model import (
    AppendSemantics,
    ColumnStyle,
    Phase,
    Source,
    Stream,
    StreamMode,
)
from ..core.names import TableName
from ..core.points import Bound
from ..storage.registry import Registry
from ..storage.source_history import SourceHistory
from ..storage.source_log import SourceLog
from .change_sets.reader import ChangeSetReader
from .tables import Tables, table_id


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Reads changes that no stream stands for; nothing is written down and nothing advances."""

    registry: Registry
    tables: Tables
    sources: SourceLog
    history: SourceHistory
    reader: ChangeSetReader
    clock: Callable[[], datetime]

    def read(
        self, name: TableName, start: Bound, end: Bound | None, mode: StreamMode, style: ColumnStyle
    ) -> DataFrame:
        """The change set of a table; see ``Engine.changes``."""
        table = self.tables.get(name)
        subject = f"changes of {table.name}"
        newest = self.tables.newest_offset(table)
        source = Source(table.name, table.location, table_id(newest))
        streams = self.registry.snapshot()
        offset = self.history.offset(subject, source, start, streams)
        last = newest if end is None else self.history.offset(subject, source, end, streams)
        if last.version < offset.version:
            raise InvalidRange(
                subject,
                "end before they begin",
                cause=f"{end} is version {last.version}, {start} is version {offset.version}",
                fix="name an end that is not earlier than the beginning",
            )
        passing = Stream(
            stream_id="",
            name=table.name,
            sequence=0,
            phase=Phase.IDLE,
            source=source,
            mode=mode,
            append_semantics=AppendSemantics.INSERTED,
            column_style=style,
            offset=offset,
            created_at=self.clock(),
            owner="",
        )
        try:
            span = self.sources.range_from(passing, through=last.version)
            return self.reader.read(span).rows
        except CdcError as error:
            raise type(error)(subject, error.problem, cause=error.cause, fix=error.fix) from None
