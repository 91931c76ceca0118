"""Changes of a table or a view between two points of its history, without a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame

from ...core.arguments.points import Bound, check_order, ends_before_it_begins
from ...core.delta.tracking import describe_offset
from ...core.errors import CdcError
from ...core.model.sources import Offset
from ...core.model.stream import ColumnStyle, StreamMode, new_stream
from ...core.names import TableName
from ...storage.registry.registry import Registry
from ...storage.sources.source_log import SourceLog
from .found_sources import Sources
from .stream_reader import StreamReader


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Reads changes without a stream; it writes nothing and moves no stream."""

    registry: Registry
    sources: Sources
    logs: SourceLog
    reader: StreamReader
    clock: Callable[[], datetime]
    principal: str

    def read(
        self, name: TableName, start: Bound, end: Bound | None, mode: StreamMode, style: ColumnStyle
    ) -> DataFrame:
        """The change set of a table or a view; see ``Engine.changes``."""
        found = self.sources.either(name)
        subject = f"changes of {found.name}"
        if end is not None:
            check_order(subject, start, end)
        streams = self.registry.snapshot()

        def offsets_at(bound: Bound) -> tuple[Offset, ...]:
            return self.sources.offsets(
                subject, found, bound, streams, self.principal, may_precede_all=True
            )

        offsets = offsets_at(start)
        ends = found.newest if end is None else offsets_at(end)
        for offset, last in zip(offsets, ends, strict=True):
            if last.version < offset.version:
                raise ends_before_it_begins(
                    subject,
                    f"{end} is {describe_offset(last)}, {start} is {describe_offset(offset)}",
                )
        passing = new_stream(
            found.name,
            found.bases,
            created_at=self.clock(),
            owner="",
            mode=mode,
            column_style=style,
            view=found.view,
        ).with_offsets(*offsets)
        try:
            span = self.logs.span_from(passing, through=[last.version for last in ends])
            return self.reader.read(span).rows
        except CdcError as error:
            raise type(error)(subject, error.problem, cause=error.cause, fix=error.fix) from None
