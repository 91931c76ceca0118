"""The nouns of the engine: stream, offset, consumption, outcome.

All of them are frozen and travel as JSON (see :func:`to_json` and :func:`from_json`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from threading import Lock
from typing import Any, TypeVar

import msgspec


class StreamMode(StrEnum):
    """Which changes a stream records (seed 000, stream types; seed 001, modes)."""

    STANDARD = "standard"
    APPEND_ONLY = "append_only"


class AppendSemantics(StrEnum):
    """What an append-only stream returns of a row that changed after it was inserted.

    ``INSERTED`` (seed 000): every row inserted since the offset with the values it was inserted
    with, even if it was updated or deleted later. ``SURVIVING`` (seed 001): the rows born since the
    offset that still live, with their latest values.
    """

    INSERTED = "inserted"
    SURVIVING = "surviving"


class ColumnStyle(StrEnum):
    """How the three metadata columns of a change set are named."""

    SNOWFLAKE = "snowflake"
    DATABEND = "databend"


@dataclass(frozen=True, slots=True)
class MetadataColumns:
    """The names of the three columns that a change set adds to the columns of its source."""

    action: str
    is_update: str
    row_id: str


METADATA_COLUMNS = {
    ColumnStyle.SNOWFLAKE: MetadataColumns(
        "METADATA$ACTION", "METADATA$ISUPDATE", "METADATA$ROW_ID"
    ),
    ColumnStyle.DATABEND: MetadataColumns("change$action", "change$is_update", "change$row_id"),
}


class Phase(StrEnum):
    """Where a stream stands in its life; see ``lifecycle.py`` for the transitions."""

    IDLE = "idle"
    APPLYING = "applying"
    RESOLVING = "resolving"
    ABORTING = "aborting"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Source:
    """The Delta table that a stream reads.

    ``location`` is the root of the table as Spark names it (a URI or an absolute path);
    ``name`` is what the user called it and serves messages only; ``table_id`` is the id in the
    table's ``metaData`` action, by which a recreated table is told from the original.
    """

    name: str
    location: str
    table_id: str


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in a source's log, with what is needed to read the old side from it.

    ``version`` is the last version that was consumed: changes after it are new. ``fingerprint`` is
    a hash of that version's commit file, by which a log that was replaced is found out.
    ``metadata`` and ``protocol`` are the JSON of the Delta actions in force at ``version``;
    ``row_id_high_water_mark`` is the highest row id given out by then (-1: none).
    ``timestamp`` is the commit's own time.
    """

    version: int
    fingerprint: str
    timestamp: datetime
    metadata: str
    protocol: str
    row_id_high_water_mark: int


class StatementKind(StrEnum):
    """The statements that may take part in a consumption (seed 000: DML and CTAS consume)."""

    INSERT = "insert"
    MERGE = "merge"
    UPDATE = "update"
    DELETE = "delete"
    CREATE_TABLE = "create_table"


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """One statement of a consumption, as it was recorded when the consumption began.

    ``fingerprint`` is the SHA-256 of the statement's text; ``target`` is the target as the
    statement names it, ``location`` the root of its Delta table, ``before_version`` the target's
    latest version when the consumption began. ``created`` says that the consumption itself
    created the target, empty, just before it began. ``rewritten_as`` is the MERGE that runs instead
    of a DELETE or an UPDATE which Delta refuses.
    """

    index: int
    kind: StatementKind
    fingerprint: str
    target: str
    location: str
    before_version: int
    created: bool = False
    rewritten_as: str | None = None


@dataclass(frozen=True, slots=True)
class StreamRange:
    """What a consumption takes of one stream: everything after ``after_version`` up to and
    including ``through.version``.
    """

    stream_id: str
    name: str
    after_version: int
    through: Offset


@dataclass(frozen=True, slots=True)
class Consumption:
    """A consumption that was begun and is neither committed nor aborted.

    ``attempts`` counts the drivers that worked on it; ``epoch`` counts how often it was reopened
    after a fence, and is part of the application ids that its statements write under.
    """

    consumption_id: str
    consumer: str
    streams: tuple[StreamRange, ...]
    statements: tuple[PlannedStatement, ...]
    begun_at: datetime
    attempts: int = 1
    epoch: int = 0

    @property
    def stream_ids(self) -> tuple[str, ...]:
        """The ids of the streams that advance together."""
        return tuple(item.stream_id for item in self.streams)

    @property
    def stream_names(self) -> str:
        """The names of the streams that advance together, for messages."""
        return ", ".join(item.name for item in self.streams)


class StatementResult(StrEnum):
    """How a statement came to be applied in this attempt."""

    APPLIED = "applied"
    ALREADY_APPLIED = "already_applied"


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """What became of one statement: the version of the target that holds it, and its metrics
    (Delta's own operation metrics of that commit, empty where Delta wrote none). ``rewritten_as``
    is the MERGE that ran instead of a DELETE or an UPDATE which Delta refuses.
    """

    index: int
    target: str
    result: StatementResult
    target_version: int
    metrics: dict[str, int] = field(default_factory=dict)
    rewritten_as: str | None = None


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """What a consumption took of one stream. ``rows`` counts rows by what became of them
    (``inserted``, ``updated``, ``deleted``); an update counts once, though it is two change rows.
    """

    stream_id: str
    name: str
    after_version: int
    through_version: int
    strategy: str
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a committed consumption did."""

    consumption_id: str
    consumer: str
    streams: tuple[StreamOutcome, ...]
    statements: tuple[StatementOutcome, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Stream:
    """The whole state of a stream: one row of the registry.

    ``sequence`` numbers the transitions of this stream from 1. ``last_consumption_id``,
    ``last_consumer``, ``last_consumed_at`` and ``last_outcome`` tell of the last committed
    consumption; the outcome is missing where somebody else than its driver committed it.
    """

    stream_id: str
    name: str
    sequence: int
    phase: Phase
    source: Source
    mode: StreamMode
    append_semantics: AppendSemantics
    column_style: ColumnStyle
    offset: Offset
    created_at: datetime
    owner: str
    comment: str | None = None
    consumption: Consumption | None = None
    last_consumption_id: str | None = None
    last_consumer: str | None = None
    last_outcome: Outcome | None = None
    last_consumed_at: datetime | None = None


Value = TypeVar("Value")


def to_json(value: object) -> str:
    """The JSON of a frozen dataclass of this package."""
    return msgspec.json.encode(value).decode()


def from_json(text: str | bytes, kind: type[Value]) -> Value:
    """The dataclass that :func:`to_json` made ``text`` of; raises ``msgspec.ValidationError``."""
    return _decoder(kind).decode(text)


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
_building = Lock()


def _decoder(kind: type[Value]) -> msgspec.json.Decoder[Value]:
    """The decoder of ``kind``, made once.

    One thread makes it and the others wait: msgspec shows what it knows of a class to every thread
    before it is complete, and a thread that decodes with a part of it crashes the interpreter.
    """
    found = _decoders.get(kind)
    if found is None:
        with _building:
            found = _decoders.get(kind)
            if found is None:
                found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found
