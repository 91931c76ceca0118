"""A stream: what it is on, which changes it records, and what it is doing."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from ..arguments.choices import parse_enum
from ..errors import BRING_BACK
from ..retention.staleness import MAX_DATA_EXTENSION
from ..summaries import place_text, versions_text
from .consumption import Consumption
from .outcomes import Outcome
from .sources import Base, Folder, Offset, Source, View


class StreamMode(StrEnum):
    """Which changes a stream records (Snowflake: types of streams; Databend: modes).

    Streams on folders of files have the mode ``INSERT_ONLY``. No other stream has it. A stream with
    the mode ``FEED`` returns every change of each commit; the others return net changes.
    """

    STANDARD = "standard"
    APPEND_ONLY = "append_only"
    INSERT_ONLY = "insert_only"
    FEED = "feed"


def parse_mode(subject: str, mode: str | None, on_files: str | None) -> StreamMode:
    """The mode called ``mode``. ``None``: the mode that records the most changes of the source.

    :raises InvalidRequest: no mode has this name
    """
    if mode is None:
        return StreamMode.STANDARD if on_files is None else StreamMode.INSERT_ONLY
    return parse_enum(subject, "mode", StreamMode, mode)


class Information(StrEnum):
    """Which changes a query asks for (Snowflake: the CHANGES clause)."""

    DEFAULT = "default"
    APPEND_ONLY = "append_only"

    @property
    def mode(self) -> StreamMode:
        """The mode of a stream that returns these changes."""
        return StreamMode.STANDARD if self is Information.DEFAULT else StreamMode.APPEND_ONLY


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


class Phase(StrEnum):
    """The phase of a stream's life. ``lifecycle.py`` holds the transitions."""

    IDLE = "idle"
    APPLYING = "applying"
    RESOLVING = "resolving"
    ABORTING = "aborting"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Stream:
    """The whole state of a stream: one row of the registry.

    ``bases`` are the tables that it reads: one table, the tables of ``view``, or the listing of
    ``folder``. ``shows_initial_rows``: the rows at the offset are not consumed yet. ``readers`` and
    ``consumers`` are the principals who may read and consume it besides its owner (``None``: see
    ``access.py``). ``max_data_extension`` is how long its sources may be made to keep what it has
    not consumed. ``max_lag`` is how old a change may become before an alert is sent.
    ``upsert_table`` names the upsert table whose changes wait in the stream (``None``: the stream
    is not one of an upsert table). ``sequence`` numbers the transitions of the stream from 1.

    ``last_consumption_id``, ``last_consumer``, ``last_consumed_at`` and ``last_outcome`` describe
    the last committed consumption. The outcome is missing if a process other than its driver
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
    def way_back(self) -> str:
        """What to do if the stream lost changes before it consumed them."""
        if self.mode is StreamMode.FEED:
            return (
                "create the stream again with or_replace=True; with show_initial_rows=True it"
                " begins with all rows, and its targets have to be loaded again"
            )
        return BRING_BACK

    @property
    def source(self) -> Source:
        """The table that it reads. For a view: the first table of the view."""
        return self.bases[0].source

    @property
    def offset(self) -> Offset:
        """The offset in ``source``."""
        return self.bases[0].offset

    @property
    def table_on(self) -> str:
        """The user's name of the table, view or folder that the stream is on."""
        return self.source.name if self.view is None else self.view.name

    def with_offsets(self, *offsets: Offset) -> Stream:
        """The same stream at other offsets, one for each of its base tables."""
        moved = zip(self.bases, offsets, strict=True)
        return replace(self, bases=tuple(Base(base.source, offset) for base, offset in moved))

    def by_base(self) -> tuple[Stream, ...]:
        """The same stream once for each of its base tables, each with only that table."""
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
    """A stream with a new id. It is not in a registry yet."""
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
