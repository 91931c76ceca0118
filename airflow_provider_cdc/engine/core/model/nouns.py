"""The data model of the engine: stream, offset, consumption, outcome.

All classes are frozen and are stored as JSON (see :func:`to_json` and :func:`from_json`).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from threading import Lock
from typing import Any, TypeVar

import msgspec

from ..figures import counted
from ..retention.staleness import MAX_DATA_EXTENSION
from ..summaries import moment_text, place_text, versions_text
from .outcomes import Outcome


class StreamMode(StrEnum):
    """Which changes a stream records (Snowflake: types of streams; Databend: modes).

    Streams on folders of files have the mode ``INSERT_ONLY``. No other stream has it.
    """

    STANDARD = "standard"
    APPEND_ONLY = "append_only"
    INSERT_ONLY = "insert_only"


class AppendSemantics(StrEnum):
    """Which rows an append-only stream returns if rows changed after their insert.

    ``INSERTED`` (Snowflake): every row inserted since the offset with its inserted values, even if
    it was updated or deleted later. ``SURVIVING`` (Databend): the rows inserted since the offset
    that still exist, with their latest values.
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
# Gives every row id sixteen hexadecimal digits. Padding the text takes five times as long.
ROW_ID_MARK = 1 << 60


def row_id_text(number: int) -> str:
    """Delta's row id ``number`` as text, as the change set of a table shows it."""
    return f"{number | ROW_ID_MARK:x}"


class Phase(StrEnum):
    """The phase of a stream's life. ``lifecycle.py`` holds the transitions."""

    IDLE = "idle"
    APPLYING = "applying"
    RESOLVING = "resolving"
    ABORTING = "aborting"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Source:
    """The Delta table that a stream reads.

    ``location`` is the root of the table as Spark names it (a URI or an absolute path). ``name`` is
    the user's name for it and is used in messages only. ``table_id`` is the id in the table's
    ``metaData`` action. It distinguishes a recreated table from the original.
    """

    name: str
    location: str
    table_id: str


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in a source's log, with what a read of the old side needs.

    ``version`` is the last consumed version: changes after it are new. ``fingerprint`` is a hash of
    that version's commit file. It shows whether the log was replaced. ``metadata`` and ``protocol``
    are the JSON of the Delta actions in force at ``version``. ``row_id_high_water_mark`` is the
    highest row id assigned up to ``version`` (-1: none). ``timestamp`` is the commit's own time.
    Version -1 is before version 0: no rows yet.
    """

    version: int
    fingerprint: str
    timestamp: datetime
    metadata: str
    protocol: str
    row_id_high_water_mark: int

    def __repr__(self) -> str:
        return f"<Offset version {self.version} of {moment_text(self.timestamp)}>"

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties in force at the offset."""
        return json.loads(self.metadata).get("configuration") or {}


@dataclass(frozen=True, slots=True)
class Base:
    """A table that a stream reads, and the stream's offset in it."""

    source: Source
    offset: Offset


@dataclass(frozen=True, slots=True)
class View:
    """The view that a stream is on.

    ``name`` is its qualified name as SQL. ``fingerprint`` is a hash of its definition and of the
    definitions of the views in it. It distinguishes a redefined view from the original. ``leaves``
    holds, for each table reference of the view in order, the index of the base that it reads.
    """

    name: str
    fingerprint: str
    leaves: tuple[int, ...]


class FileFormat(StrEnum):
    """The file formats that a stream can read, by their names in Spark."""

    AVRO = "avro"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of files that a stream reads, with the folders below it.

    ``uri`` is in the form that Spark opens. ``options`` are the options of Spark's reader of
    ``file_format``. ``schema`` is the JSON of the columns, including those of ``key=value``
    folders. Only files whose names match the Hadoop glob ``name_glob`` count.
    """

    uri: str
    file_format: FileFormat
    options: Mapping[str, str]
    schema: str
    name_glob: str | None = None

    def __repr__(self) -> str:
        glob = "" if self.name_glob is None else f", names like {self.name_glob}"
        return f"<Folder {self.uri}, {self.file_format.value} files{glob}>"


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
    the target, empty, just before. ``replaces_leftover``: an earlier consumption created the
    target, and this one replaces it while it is empty. ``rewritten_as`` is the MERGE that runs
    instead of a statement that Delta refuses.
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
    ``is_open_ended`` grows while its transaction runs. Only its own driver knows whether it is
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


@dataclass(frozen=True, slots=True)
class Stream:
    """The whole state of a stream: one row of the registry.

    ``bases`` are the tables that it reads: one table, the tables of ``view``, or the listing of
    ``folder``. ``shows_initial_rows``: the rows at the offset are not consumed yet. ``readers`` and
    ``consumers`` are the principals who may read and consume it besides its owner (``None``: see
    ``access.py``). ``max_data_extension`` is how long its sources may be made to keep what it has
    not consumed. ``max_lag`` is how old a change may become before an alert is sent.
    ``upsert_table`` names the upsert table whose changes wait in the stream (``None``: it is any
    other stream). ``sequence`` numbers the transitions of the stream from 1.

    ``last_consumption_id``, ``last_consumer``, ``last_consumed_at`` and ``last_outcome`` describe
    the last committed consumption. The outcome is missing if another process than its driver
    committed it.
    """

    stream_id: str
    name: str
    sequence: int
    phase: Phase
    bases: tuple[Base, ...]
    mode: StreamMode
    append_semantics: AppendSemantics
    column_style: ColumnStyle
    created_at: datetime
    owner: str
    comment: str | None = None
    consumption: Consumption | None = None
    last_consumption_id: str | None = None
    last_consumer: str | None = None
    last_outcome: Outcome | None = None
    last_consumed_at: datetime | None = None
    view: View | None = None
    shows_initial_rows: bool = False
    readers: tuple[str, ...] | None = None
    consumers: tuple[str, ...] | None = None
    folder: Folder | None = None
    max_data_extension: timedelta = MAX_DATA_EXTENSION
    max_lag: timedelta | None = None
    upsert_table: str | None = None

    def __repr__(self) -> str:
        at = versions_text(base.offset.version for base in self.bases)
        state = "initial rows wait, " if self.shows_initial_rows else ""
        state += self.phase.value
        if self.consumption is not None:
            state += f" by {self.consumption.consumer}"
        return f"<Stream {self.name} on {place_text(self.table_on)} at {at}, {state}>"

    @property
    def source(self) -> Source:
        """The table that it reads. For a view: the first table."""
        return self.bases[0].source

    @property
    def offset(self) -> Offset:
        """The offset in that table."""
        return self.bases[0].offset

    @property
    def table_on(self) -> str:
        """What the stream is on, by the user's name."""
        return self.source.name if self.view is None else self.view.name

    def status(self, *offsets: Offset) -> Stream:
        """The same stream at other offsets, one for each of its base tables."""
        moved = zip(self.bases, offsets, strict=True)
        return replace(self, bases=tuple(Base(base.source, offset) for base, offset in moved))

    def by_base(self) -> tuple[Stream, ...]:
        """The same stream once for each of its base tables, each with that table alone."""
        return tuple(replace(self, bases=(base,)) for base in self.bases)


def new_stream(
    name: str,
    bases: tuple[Base, ...],
    *,
    created_at: datetime,
    owner: str,
    mode: StreamMode = StreamMode.STANDARD,
    append_semantics: AppendSemantics = AppendSemantics.INSERTED,
    column_style: ColumnStyle = ColumnStyle.SNOWFLAKE,
    comment: str | None = None,
    view: View | None = None,
    folder: Folder | None = None,
    shows_initial_rows: bool = False,
    readers: tuple[str, ...] | None = None,
    consumers: tuple[str, ...] | None = None,
    max_data_extension: timedelta = MAX_DATA_EXTENSION,
    max_lag: timedelta | None = None,
    upsert_table: str | None = None,
) -> Stream:
    """A stream with a new id, which is in no registry yet."""
    return Stream(
        stream_id=uuid.uuid4().hex,
        name=name,
        sequence=0,
        phase=Phase.IDLE,
        bases=bases,
        mode=mode,
        append_semantics=append_semantics,
        column_style=column_style,
        created_at=created_at,
        owner=owner,
        comment=comment,
        view=view,
        folder=folder,
        shows_initial_rows=shows_initial_rows,
        readers=readers,
        consumers=consumers,
        max_data_extension=max_data_extension,
        max_lag=max_lag,
        upsert_table=upsert_table,
    )


Value = TypeVar("Value")


def to_json(value: object) -> str:
    """Encode a frozen dataclass of this package as JSON."""
    return msgspec.json.encode(value).decode()


def from_json(text: str | bytes, kind: type[Value]) -> Value:
    """Decode the dataclass from the ``text`` that :func:`to_json` made.

    :raises msgspec.ValidationError: ``text`` does not describe a ``kind``
    """
    return _decoder(kind).decode(text)


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
_building = Lock()


def _decoder(kind: type[Value]) -> msgspec.json.Decoder[Value]:
    """The decoder of ``kind``, made once.

    One thread makes it and the others wait. msgspec shows other threads what it knows about a class
    before that is complete, and a thread that decodes with a part of it crashes the interpreter.
    """
    found = _decoders.get(kind)
    if found is None:
        with _building:
            found = _decoders.get(kind)
            if found is None:
                found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found
