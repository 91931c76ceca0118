"""What a job is asked to do and what it answers, as frozen dataclasses that travel as JSON.

The operator builds the same dataclass that the driver reads, so there is one list of arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..engine.core.model import AppendSemantics, ColumnStyle, Outcome, Stream, StreamMode


@dataclass(frozen=True, slots=True)
class CreateStream:
    """Create a stream; see ``Engine.create_stream`` for the arguments.

    ``at`` and ``before`` are points as :func:`~..engine.core.points.as_mapping` writes them.
    """

    name: str
    on_table: str
    mode: StreamMode = StreamMode.STANDARD
    append_semantics: AppendSemantics = AppendSemantics.INSERTED
    column_style: ColumnStyle = ColumnStyle.SNOWFLAKE
    at: dict[str, int | str] | None = None
    before: dict[str, int | str] | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Consume:
    """Consume the streams that ``statements`` read, as ``consumer``, within bounds."""

    statements: tuple[str, ...]
    consumer: str
    max_commits: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """Move the offset of ``stream`` to now without any DML."""

    stream: str


@dataclass(frozen=True, slots=True)
class HasData:
    """Ask the engine whether ``stream`` has a change, exactly."""

    stream: str


Task = CreateStream | Consume | Advance | HasData


class JobKind(StrEnum):
    """The name of each job in its JSON."""

    CREATE_STREAM = "create_stream"
    CONSUME = "consume"
    ADVANCE = "advance"
    HAS_DATA = "has_data"


@dataclass(frozen=True, slots=True)
class Request:
    """One submission. Exactly the field that ``kind`` names is set.

    ``request_id`` is chosen by the submitter and names the answer in the state folder. No secret
    belongs in here: it shows in the process list.
    """

    request_id: str
    state: str
    kind: JobKind
    create_stream: CreateStream | None = None
    consume: Consume | None = None
    advance: Advance | None = None
    has_data: HasData | None = None


@dataclass(frozen=True, slots=True)
class JobError:
    """An error of the engine, as it travels back: its ``kind`` (``CdcError.kind``), message, and
    whether running the same task again can help.
    """

    kind: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job answers: an error, or the result that belongs to its kind."""

    request_id: str
    error: JobError | None = None
    stream: Stream | None = None
    outcome: Outcome | None = None
    has_data: bool | None = None
