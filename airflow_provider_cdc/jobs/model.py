"""What a job is asked to do and what it answers, as frozen dataclasses that are sent as JSON.

The operator builds the same dataclass that the driver reads, so there is one list of arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from ..engine.core.errors import InvalidRequest
from ..engine.core.model.outcomes import Outcome
from ..engine.core.model.stream import AppendSemantics, ColumnStyle, Stream, StreamMode
from ..engine.core.retention.staleness import MAX_DATA_EXTENSION
from ..engine.core.retention.table_retention import Maintenance
from ..engine.core.upserts.definition import TOMBSTONE_HORIZON, OnBadRows, UpsertTable


@dataclass(frozen=True, slots=True)
class CreateStream:
    """Create a stream; see ``Engine.create_stream`` for the arguments.

    ``at`` and ``before`` are points as :func:`~..engine.core.points.as_mapping` writes them.
    ``file_options`` are text as :func:`~..engine.core.file_options.options_as_text` writes them.
    """

    name: str
    on_table: str | None = None
    mode: StreamMode = StreamMode.STANDARD
    append_semantics: AppendSemantics = AppendSemantics.INSERTED
    column_style: ColumnStyle = ColumnStyle.SNOWFLAKE
    at: dict[str, int | str] | None = None
    before: dict[str, int | str] | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    owner: str | None = None
    on_files: str | None = None
    file_format: str | None = None
    file_options: dict[str, str] | None = None
    file_schema: str | None = None
    on_view: str | None = None
    show_initial_rows: bool = False
    readers: tuple[str, ...] | None = None
    consumers: tuple[str, ...] | None = None
    max_data_extension: timedelta = MAX_DATA_EXTENSION
    max_lag: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Consume:
    """Consume ``streams`` as ``consumer``, within bounds. Either ``statements`` read them, or
    ``apply`` names a function as ``package.module:function``. The function gets the change set of
    each stream and the transaction.
    """

    statements: tuple[str, ...]
    consumer: str
    max_commits: int | None = None
    max_bytes: int | None = None
    apply: str | None = None
    streams: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HasData:
    """Check with the engine whether ``stream`` has a change, exactly."""

    stream: str


class ExportFormat(StrEnum):
    """What an export writes: rows of a Delta table, or a folder of files."""

    DELTA = "delta"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"


class ExportMode(StrEnum):
    """What happens to rows or files that the target has already."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ExportChanges:
    """Write the changes of the table or view ``name`` to ``target``; see ``Engine.changes``.

    ``target`` is a table's name or path, or with a ``format`` of files the URI of a folder. A
    repeated append is recognised by its ``export_id``.
    """

    name: str
    target: str
    export_id: str
    at: dict[str, int | str] | None = None
    before: dict[str, int | str] | None = None
    end: dict[str, int | str] | None = None
    information: str = "default"
    column_style: ColumnStyle = ColumnStyle.SNOWFLAKE
    format: ExportFormat = ExportFormat.DELTA
    mode: ExportMode = ExportMode.OVERWRITE

    def __post_init__(self) -> None:
        """Refuse to append to files; raises ``InvalidRequest``."""
        _check_export(self)


@dataclass(frozen=True, slots=True)
class ExportTable:
    """Write the rows of the upsert table ``table`` to ``target``, as fresh as its ``max_staleness``
    requires; see ``Engine.query_table``, and :class:`ExportChanges` for the other fields.
    """

    table: str
    target: str
    export_id: str
    format: ExportFormat = ExportFormat.DELTA
    mode: ExportMode = ExportMode.OVERWRITE

    def __post_init__(self) -> None:
        """Refuse to append to files; raises ``InvalidRequest``."""
        _check_export(self)


Export = ExportChanges | ExportTable


def _check_export(task: Export) -> None:
    if task.format is not ExportFormat.DELTA and task.mode is ExportMode.APPEND:
        raise InvalidRequest(
            f"export to {task.target}",
            f"cannot append {task.format.value} files",
            cause="a task that runs again would append the same rows again",
            fix="overwrite the folder, name another one for each run, or append to a Delta table",
        )


@dataclass(frozen=True, slots=True)
class Maintain:
    """Keep the streams of the state folder from going stale; see ``Engine.maintain``."""

    ahead: timedelta


@dataclass(frozen=True, slots=True)
class Recover:
    """Make ``target`` equal to the source of ``stream`` after it went stale; see
    ``Engine.recover``.
    """

    stream: str
    target: str
    key: tuple[str, ...]
    consumer: str


@dataclass(frozen=True, slots=True)
class AbortConsumption:
    """End the open consumption of ``stream``, and leave the targets in ``keep`` as they are; see
    ``Engine.abort``.
    """

    stream: str
    keep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RewindStream:
    """Move ``stream`` back to the point ``to``, in the form of :class:`CreateStream`; see
    ``Engine.rewind``.
    """

    stream: str
    to: dict[str, int | str]


@dataclass(frozen=True, slots=True)
class CreateUpsertTable:
    """Create an upsert table; see ``Engine.create_upsert_table`` for the arguments."""

    table: str
    schema: str
    primary_key: tuple[str, ...]
    max_staleness: timedelta | None = None
    tombstone_horizon: timedelta = TOMBSTONE_HORIZON
    cluster_by: tuple[str, ...] | None = None
    partial_changes: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterUpsertTable:
    """Change the intervals of the upsert table ``table``; see ``Engine.alter_upsert_table``. With
    ``keeps_max_staleness`` its ``max_staleness`` stays, and without a ``tombstone_horizon`` that
    stays.
    """

    table: str
    max_staleness: timedelta | None
    keeps_max_staleness: bool = False
    tombstone_horizon: timedelta | None = None


@dataclass(frozen=True, slots=True)
class AddColumns:
    """Add the columns of ``schema`` to the upsert table ``table``; see ``Engine.add_columns``."""

    table: str
    schema: str


@dataclass(frozen=True, slots=True)
class DropUpsertTable:
    """Drop the upsert table ``table``; see ``Engine.drop_upsert_table``."""

    table: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class WriteChanges:
    """Write what ``query`` returns as changes of the upsert table ``table``; see
    ``Engine.write_changes``. A second write with the same ``write_id`` writes nothing.
    """

    table: str
    query: str
    write_id: str
    on_bad_rows: OnBadRows = OnBadRows.FAIL


@dataclass(frozen=True, slots=True)
class ApplyUpserts:
    """Apply the changes that wait for the upsert table ``table``; see ``Engine.apply_upserts``."""

    table: str


@dataclass(frozen=True, slots=True)
class RedriveChanges:
    """Redrive the changes in quarantine of the upsert table ``table``; see ``Engine.redrive``."""

    table: str
    late: bool = False


Task = (
    CreateStream
    | Consume
    | HasData
    | ExportChanges
    | ExportTable
    | Maintain
    | Recover
    | AbortConsumption
    | RewindStream
    | CreateUpsertTable
    | AlterUpsertTable
    | AddColumns
    | DropUpsertTable
    | WriteChanges
    | ApplyUpserts
    | RedriveChanges
)


class JobKind(StrEnum):
    """The name of each job in its JSON."""

    CREATE_STREAM = "create_stream"
    CONSUME = "consume"
    HAS_DATA = "has_data"
    EXPORT_CHANGES = "export_changes"
    EXPORT_TABLE = "export_table"
    MAINTAIN = "maintain"
    RECOVER = "recover"
    ABORT_CONSUMPTION = "abort_consumption"
    REWIND_STREAM = "rewind_stream"
    CREATE_UPSERT_TABLE = "create_upsert_table"
    ALTER_UPSERT_TABLE = "alter_upsert_table"
    ADD_COLUMNS = "add_columns"
    DROP_UPSERT_TABLE = "drop_upsert_table"
    WRITE_CHANGES = "write_changes"
    APPLY_UPSERTS = "apply_upserts"
    REDRIVE_CHANGES = "redrive_changes"


KINDS: Mapping[type[Task], JobKind] = {
    CreateStream: JobKind.CREATE_STREAM,
    Consume: JobKind.CONSUME,
    HasData: JobKind.HAS_DATA,
    ExportChanges: JobKind.EXPORT_CHANGES,
    ExportTable: JobKind.EXPORT_TABLE,
    Maintain: JobKind.MAINTAIN,
    Recover: JobKind.RECOVER,
    AbortConsumption: JobKind.ABORT_CONSUMPTION,
    RewindStream: JobKind.REWIND_STREAM,
    CreateUpsertTable: JobKind.CREATE_UPSERT_TABLE,
    AlterUpsertTable: JobKind.ALTER_UPSERT_TABLE,
    AddColumns: JobKind.ADD_COLUMNS,
    DropUpsertTable: JobKind.DROP_UPSERT_TABLE,
    WriteChanges: JobKind.WRITE_CHANGES,
    ApplyUpserts: JobKind.APPLY_UPSERTS,
    RedriveChanges: JobKind.REDRIVE_CHANGES,
}
"""The kind of each task, which is also the name of the field of :class:`Request` that holds it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One submission. Exactly the field that ``kind`` names is set.

    The submitter chooses ``request_id``, which names the answer in the state folder. ``principal``
    is who asks; None: the user of the driver's process. A request must hold no secret, because it
    shows in the process list.
    """

    request_id: str
    state: str
    kind: JobKind
    principal: str | None = None
    create_stream: CreateStream | None = None
    consume: Consume | None = None
    has_data: HasData | None = None
    export_changes: ExportChanges | None = None
    export_table: ExportTable | None = None
    maintain: Maintain | None = None
    recover: Recover | None = None
    abort_consumption: AbortConsumption | None = None
    rewind_stream: RewindStream | None = None
    create_upsert_table: CreateUpsertTable | None = None
    alter_upsert_table: AlterUpsertTable | None = None
    add_columns: AddColumns | None = None
    drop_upsert_table: DropUpsertTable | None = None
    write_changes: WriteChanges | None = None
    apply_upserts: ApplyUpserts | None = None
    redrive_changes: RedriveChanges | None = None


@dataclass(frozen=True, slots=True)
class JobError:
    """An error of the engine in an answer: its ``kind`` (``CdcError.kind``), its message, and
    whether running the same task again can help.
    """

    kind: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A job's answer: an error, or the result that belongs to its kind."""

    request_id: str
    error: JobError | None = None
    stream: Stream | None = None
    outcome: Outcome | None = None
    maintenance: Maintenance | None = None
    has_data: bool | None = None
    redriven: int | None = None
    upsert_table: UpsertTable | None = None
