"""The tasks and the answers of jobs, as frozen classes that are sent as JSON.

The operator builds the same class that the driver reads, so there is one list of arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from ..engine.core.archives.archive_outcome import ArchiveOutcome
from ..engine.core.change_feed.tracked_since import ChangeTracking
from ..engine.core.change_streams.consumer import PartitionRead
from ..engine.core.change_streams.definition import ChangeStream
from ..engine.core.errors import InvalidRequest
from ..engine.core.findings import Finding
from ..engine.core.history.request import HistoryRequest
from ..engine.core.model.outcomes import Outcome
from ..engine.core.model.stream import ColumnStyle, Stream
from ..engine.core.model.stream_spec import StreamSpec
from ..engine.core.retention.table_retention import Maintenance
from ..engine.core.shown_values import shown
from ..engine.core.upserts.definition import UpsertTable
from ..engine.core.upserts.write_result import WriteResult
from ..engine.core.verification.verification import Verification
from .change_stream_tasks import ChangeStreamTask
from .job_task import JobTask
from .upsert_tasks import UpsertTask


class CreateStream(JobTask, frozen=True):
    """Create a stream.

    The ``file_options`` of the spec are text in the form that ``options_as_text`` of
    ``engine.core.folders.file_options`` returns.
    """

    spec: StreamSpec


class ConsumeStream(JobTask, frozen=True):
    """Consume streams as ``consumer``, at most ``max_commits`` and ``max_bytes`` of them.

    Either ``statements`` read the streams, or ``apply`` names a function as
    ``package.module:function``. The function gets the change set of each of ``streams`` and the
    transaction.
    """

    statements: tuple[str, ...]
    consumer: str
    max_commits: int | None = None
    max_bytes: int | None = None
    apply: str | None = None
    streams: tuple[str, ...] = ()


PARALLELISM = 4
"""How many consumptions of one job run at once if nothing else is said."""


class ConsumeStreams(JobTask, frozen=True):
    """Run each of ``consumptions`` on its own, at most ``parallelism`` of them at once.

    Each has a consumer of its own, and no two of them read the same stream.
    """

    consumptions: tuple[ConsumeStream, ...]
    parallelism: int = PARALLELISM

    def __post_init__(self) -> None:
        """Refuse a job in which nothing can run; raises ``InvalidRequest``."""
        if type(self.parallelism) is not int or self.parallelism < 1:
            raise InvalidRequest(
                f"parallelism {shown(self.parallelism)}",
                "is not a number of consumptions",
                cause="expected a whole number, 1 or more",
                fix=f"leave it out to run {PARALLELISM} consumptions at once",
            )


class StreamHasData(JobTask, frozen=True):
    """Check exactly whether ``stream`` has a change."""

    stream: str


MOST_ROWS_READ = 1_000
"""The most rows that a job hands back."""


class ReadStream(JobTask, frozen=True):
    """Hand back at most ``limit`` rows of the change set of ``stream``, and move no offset."""

    stream: str
    limit: int

    def __post_init__(self) -> None:
        """Refuse a limit that is no number of rows, or too many; raises ``InvalidRequest``."""
        if type(self.limit) is not int or not 1 <= self.limit <= MOST_ROWS_READ:
            raise InvalidRequest(
                f"limit {shown(self.limit)}",
                "is not a number of rows to read",
                cause=f"expected a whole number from 1 to {MOST_ROWS_READ:,}",
                fix="correct it; for more rows, call engine.read_stream or run ExportChanges",
            )


class ExportFormat(StrEnum):
    """The format of an export: a Delta table, or a folder of files."""

    DELTA = "delta"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"


class ExportMode(StrEnum):
    """How an export treats rows or files that the target already has."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR = "error"


class ExportChanges(JobTask, frozen=True):
    """Write the changes of the table or view ``name`` to ``target``; see ``Engine.changes``.

    ``target`` is the name or path of a table. With a ``format`` of files, it is the URI of a
    folder. ``export_id`` identifies a repeated append, which writes nothing.
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


class ExportTable(JobTask, frozen=True):
    """Write the rows of the upsert table ``table`` to ``target``, as fresh as its ``max_staleness``
    requires; see ``Engine.query_upsert_table``, and :class:`ExportChanges` for the other fields.
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


class MaintainStreams(JobTask, frozen=True):
    """Prevent the streams of the state folder from going stale; see ``Engine.maintain_streams``."""

    ahead: timedelta


class RecoverStream(JobTask, frozen=True):
    """Make ``target`` equal to the source of ``stream`` after it went stale; see
    ``Engine.recover_stream``.
    """

    stream: str
    target: str
    key: tuple[str, ...]
    consumer: str


class AbortConsumption(JobTask, frozen=True):
    """Abort the open consumption of ``stream``, and leave the targets in ``keep`` unchanged; see
    ``Engine.abort_consumption``.
    """

    stream: str
    keep: tuple[str, ...] = ()


class RewindStream(JobTask, frozen=True):
    """Move ``stream`` back to the point ``to``, in the form of :class:`CreateStream`; see
    ``Engine.rewind_stream``.
    """

    stream: str
    to: dict[str, int | str]


class EnableChangeTracking(JobTask, frozen=True):
    """Record the changes of ``table`` from now on; see ``Engine.enable_change_tracking``."""

    table: str
    row_tracking: bool = True
    change_feed: bool = False


class ArchiveChanges(JobTask, frozen=True):
    """Archive the new changes of ``table``; see ``Engine.archive_changes``."""

    table: str
    archive: str
    from_version: int | None = None
    from_timestamp: str | None = None
    bootstrap: bool = True
    max_commits: int | None = None
    max_bytes: int | None = None


class VerifyTarget(JobTask, frozen=True):
    """Check whether ``target`` equals the source of ``stream``; see ``Engine.verify_target``."""

    stream: str
    target: str
    key: tuple[str, ...] | None = None
    heal: bool = False
    full: bool = False


class ApplyChanges(JobTask, frozen=True):
    """Keep a copy or a history of a source; see ``Engine.apply_changes``."""

    request: HistoryRequest
    consumer: str


class RebuildHistory(JobTask, frozen=True):
    """Compute ``target`` anew from ``archive``; see ``Engine.rebuild_history``."""

    target: str
    archive: str
    stream: str
    consumer: str
    query: str | None = None


class CheckReach(JobTask, frozen=True):
    """Check that the driver and the executors reach the same state folder."""


HistoryTask = ApplyChanges | RebuildHistory


OneTask = (
    CreateStream
    | ConsumeStream
    | StreamHasData
    | ReadStream
    | CheckReach
    | ExportChanges
    | ExportTable
    | MaintainStreams
    | RecoverStream
    | AbortConsumption
    | RewindStream
    | EnableChangeTracking
    | ArchiveChanges
    | VerifyTarget
    | HistoryTask
    | ChangeStreamTask
    | UpsertTask
)
"""The tasks that run on one session."""

Task = OneTask | ConsumeStreams


@dataclass(frozen=True, slots=True)
class Request:
    """One submission of a task.

    The submitter chooses ``request_id``, which names the answer in the state folder. ``principal``
    is the principal of the request; ``None``: the user of the driver's process. A request must not
    hold a secret, because it shows in the process list. ``wants_lineage``: the answer shall have a
    :class:`Lineage`.
    """

    request_id: str
    state: str
    task: Task
    principal: str | None = None
    wants_lineage: bool = False

    @property
    def job(self) -> str:
        """The name of the task's job."""
        return self.task.job


@dataclass(frozen=True, slots=True)
class JobError:
    """An error in an answer: its ``kind`` (``CdcError.kind``) and its message.

    ``retryable``: a second run of the same task can succeed.
    """

    kind: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Lineage:
    """What only a driver knows of the tables that a task read and wrote.

    ``streams`` are the columns of the table that each stream is on, by the name of the stream; a
    stream on a view or on files is left out. ``tables`` are the columns of targets, by their
    locations. The other fields are those of an export: the location of its ``source`` (``None``: it
    is a view) and of its ``target``, with the version of a Delta table.
    """

    streams: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    source: str | None = None
    target: str | None = None
    target_version: int | None = None


@dataclass(frozen=True, slots=True)
class ConsumptionResult:
    """How one of several consumptions ended: with an outcome, with an error, or with neither
    because nothing waited in its ``streams``.
    """

    consumer: str
    streams: tuple[str, ...]
    outcome: Outcome | None = None
    error: JobError | None = None
    lineage: Lineage | None = None


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Rows of a change set: the names of its columns, and each row as a JSON object.

    Times are in UTC, and binary values are in Base64.
    """

    columns: tuple[str, ...]
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a job: an error, or the result of its kind of task.

    ``consumptions`` are the results of several consumptions, in the order of their task. If some
    of them failed, the answer has no error of its own.
    """

    request_id: str
    error: JobError | None = None
    stream: Stream | None = None
    outcome: Outcome | None = None
    consumptions: tuple[ConsumptionResult, ...] = ()
    maintenance: Maintenance | None = None
    has_data: bool | None = None
    rows: StreamRows | None = None
    reached: tuple[Finding, ...] = ()
    redriven: int | None = None
    written: WriteResult | None = None
    upsert_table: UpsertTable | None = None
    tracking: ChangeTracking | None = None
    archived: ArchiveOutcome | None = None
    verification: Verification | None = None
    change_stream: ChangeStream | None = None
    partition: PartitionRead | None = None
    lineage: Lineage | None = None
