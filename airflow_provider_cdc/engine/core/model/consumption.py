"""A consumption: which statements apply which ranges of which streams."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ..figures import counted
from ..summaries import moment_text
from .sources import Offset, Source


class StatementKind(StrEnum):
    """The statements that can take part in a consumption.

    Snowflake: DML and CREATE TABLE ... AS consume a stream.
    """

    INSERT = "insert"
    MERGE = "merge"
    UPDATE = "update"
    DELETE = "delete"
    CREATE_TABLE = "create_table"


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """One statement of a consumption, as recorded when the consumption began.

    ``fingerprint`` is the SHA-256 of the statement's text. ``target`` is the target as the
    statement names it, and ``location`` is the root of its Delta table. ``before_version`` is the
    target's latest version when the consumption began. ``created``: the consumption itself created
    the empty target just before. ``replaces_leftover``: an earlier consumption created the target,
    and this one replaces it while it is empty. ``rewritten_as`` is the MERGE that runs instead of a
    statement that Delta refuses.
    """

    index: int
    kind: StatementKind
    fingerprint: str
    target: str
    location: str
    before_version: int
    created: bool = False
    rewritten_as: str | None = None
    replaces_leftover: bool = False


@dataclass(frozen=True, slots=True)
class TableRange:
    """What a consumption takes of one table: all commits after ``after_version`` up to and
    including ``through.version``.

    In a folder, the range leaves out files that were overwritten or removed later, up to version
    ``seen_through`` of the listing. ``source`` is the table that the stream reads from then on, if
    it read another table before.
    """

    after_version: int
    through: Offset
    seen_through: int | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class StreamRange:
    """What a consumption takes of one stream: a range of each of its base tables, in order."""

    stream_id: str
    name: str
    tables: tuple[TableRange, ...]


@dataclass(frozen=True, slots=True)
class Consumption:
    """An open consumption: it has begun and is neither committed nor aborted.

    ``attempts`` counts the drivers that worked on it. ``epoch`` counts how often it was reopened
    after a fence, and is part of the application ids of its statements. A consumption that
    ``is_open_ended`` grows while its transaction runs. Only its driver knows whether it is
    complete, so it is never resumed and never rolled forward.
    """

    consumption_id: str
    consumer: str
    streams: tuple[StreamRange, ...]
    statements: tuple[PlannedStatement, ...]
    begun_at: datetime
    attempts: int = 1
    epoch: int = 0
    is_open_ended: bool = False

    def __repr__(self) -> str:
        return (
            f"<Consumption {self.consumption_id} of {self.stream_names} by {self.consumer},"
            f" {counted(len(self.statements), 'statement')}, begun {moment_text(self.begun_at)}>"
        )

    @property
    def stream_ids(self) -> tuple[str, ...]:
        """The ids of the streams that advance together."""
        return tuple(item.stream_id for item in self.streams)

    @property
    def stream_names(self) -> str:
        """The names of the streams that advance together, for messages."""
        return ", ".join(item.name for item in self.streams)

    def ordinal_of(self, statement: PlannedStatement) -> str:
        """The place of a statement, counted from 1: ``2 of 2``, or ``2`` if more can follow."""
        number = statement.index + 1
        return str(number) if self.is_open_ended else f"{number} of {len(self.statements)}"
