"""The errors of the engine: they have one root, and are grouped by what the caller can do.

Every message reads ``<subject>: <problem>. Cause: <cause>. Fix: <fix>.``. An error is raised before
anything is written, unless its class states otherwise.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

BRING_BACK = (
    "recover each target that must equal the source, with RecoverStream or"
    " engine.recover_stream(stream, target, key);"
    " a stream that is only created again starts from now, and its targets never get the changes"
    " that it had not consumed"
)
"""What to do about a stream that lost changes before it consumed them."""

_LINES = re.compile(r" (?=(?:Cause|Fix): )")


def ended_by_hand(*keep: str) -> str:
    """How an Airflow operator or a call ends an open consumption.

    :param keep: the targets that keep what was applied
    """
    kept = f"keep=[{', '.join(map(repr, keep))}]" if keep else ""
    call = ", ".join(filter(None, ("stream", kept)))
    return f"AbortConsumption{f' with {kept}' if keep else ''} or engine.abort_consumption({call})"


class CdcError(Exception):
    """Root of every error that the engine raises on purpose.

    :param subject: the stream, table or statement that the error is about
    :param problem: what happened
    :param cause: what was expected and what was found. If it is a whole message of this package,
        the error leaves out its labels and its fix. So each message has one cause and one fix.
    :param fix: what to do next
    """

    kind: ClassVar[str] = "cdc_error"
    retryable: ClassVar[bool] = False

    def __init__(self, subject: str, problem: str, *, cause: str = "", fix: str = "") -> None:
        self.subject = subject = _printable(subject)
        self.problem = problem = _printable(problem)
        self.cause = cause = _printable(_without_labels(cause).rstrip("."))
        self.fix = fix = _printable(fix)
        parts = [f"{subject}: {problem}."]
        if cause:
            parts.append(f"Cause: {cause}.")
        if fix:
            parts.append(f"Fix: {fix}.")
        super().__init__(" ".join(parts))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all fields. By default, Python rebuilds an exception from its message only."""
        return _remade, (type(self), self.subject, self.problem, self.cause, self.fix)


class InvalidRequest(CdcError):
    """The call itself is wrong: change it and call again."""

    kind = "invalid_request"


class UnsupportedEnvironment(InvalidRequest):
    """The engine cannot work with this Spark, Delta, Java or session."""

    kind = "unsupported_environment"


class InvalidName(InvalidRequest):
    """A text that cannot be the name of a stream, table or consumer."""

    kind = "invalid_name"


class InvalidStatement(InvalidRequest):
    """A statement that cannot consume: it is malformed or not DML, or its target cannot
    take part.
    """

    kind = "invalid_statement"


class UnsupportedView(InvalidRequest):
    """A view whose query a stream cannot follow.

    The query does more than project, filter, join and UNION ALL, or it is not certain what it does.
    """

    kind = "unsupported_view"


class InvalidRange(InvalidRequest):
    """A version range that does not exist: negative, reversed, or past the end."""

    kind = "invalid_range"


class InvalidPartitionToken(InvalidRequest):
    """A text that is not the token of a partition of that change stream."""

    kind = "invalid_partition_token"


class TableNotFound(InvalidRequest):
    """No table has that name or path."""

    kind = "table_not_found"


class TableExists(InvalidRequest):
    """Something already exists at the name or path of a new table."""

    kind = "table_exists"


class NotADeltaTable(InvalidRequest):
    """The object exists, but it is not a Delta table."""

    kind = "not_a_delta_table"


class StreamNotFound(InvalidRequest):
    """The registry has no stream of that name."""

    kind = "stream_not_found"


class RegistryNotFound(StreamNotFound):
    """The stream is not found because there is no registry.

    For example, the state folder is not mounted.
    """


class StreamExists(InvalidRequest):
    """A stream of that name already exists."""

    kind = "stream_exists"


class StreamAccessDenied(CdcError):
    """The stream names the principals who may do that, and this principal is not one of them."""

    kind = "stream_access_denied"


class StreamUnusable(CdcError):
    """The stream can no longer give an exact change set. Recreate it, or repair its source."""

    kind = "stream_unusable"


class StreamStale(StreamUnusable):
    """The offset is outside what the source still keeps, or the source is another table now.

    Snowflake: a stream goes stale when its offset leaves the retention of its source. Recreating
    the source makes its streams stale.
    """

    kind = "stream_stale"


class StreamUnreadable(StreamUnusable):
    """The record of the stream in the registry cannot be read. Other streams are not affected."""

    kind = "stream_unreadable"


class ChangeTrackingDisabled(StreamUnusable):
    """Row tracking of the source is off, or was off somewhere in the range."""

    kind = "change_tracking_disabled"


class FilesChanged(StreamUnusable):
    """A file was overwritten or removed between the listing and the end of reading it.

    The next consumption lists the folder again, and reads the file as a new file.
    """

    kind = "files_changed"
    retryable = True


class FileUnreadable(StreamUnusable):
    """A file of a folder is broken, or is not what its stream reads. None of its rows are consumed.

    The stream continues when the file is corrected, removed or hidden by its name. A writer may do
    that at any time. A store may also have failed only for a moment. So a retry may help.
    """

    kind = "file_unreadable"
    retryable = True


class StreamConflict(CdcError):
    """Another process moved the stream first. Nothing of this attempt remains.

    Databend: of several transactions that consume one stream, the first to commit succeeds.
    """

    kind = "stream_conflict"
    retryable = True


class StreamMoved(StreamConflict):
    """A stream or a target moved after a statement was made from it. No consumption was begun."""


class StatementFailed(CdcError):
    """A statement of a consumption failed. The consumption was aborted and the offset stays.

    Databend: after a failed transaction the stream is unchanged and can be consumed again.
    """

    kind = "statement_failed"
    retryable = True


class ConsumptionOpen(CdcError):
    """A consumption is partly applied and cannot be undone, because a target has changed since.

    It stays open. Its consumer may retry to finish it. ``AbortConsumption`` and
    ``engine.abort_consumption`` end it.
    """

    kind = "consumption_open"
    retryable = True


class StoreUnreachable(CdcError, OSError):
    """The store of the state folder does not answer, or does not know who asks."""

    kind = "store_unreachable"
    retryable = True


class OutcomeUnknown(CdcError):
    """It is not known whether a write succeeded. Calling again is safe and finds out."""

    kind = "outcome_unknown"
    retryable = True


def message_lines(message: str) -> tuple[str, ...]:
    """The lines of a message of this package: what happened, the cause, the fix."""
    text = " ".join(message.split())
    return tuple(_LINES.split(text))


def _printable(text: str) -> str:
    """``text`` with escapes for what UTF-8 cannot encode.

    The text goes into logs and databases.
    """
    return text.encode(errors="backslashreplace").decode()


def _without_labels(cause: str) -> str:
    """``cause`` as a part of a sentence, without the labels of a whole message of this package."""
    what, label, _ = cause.partition(". Fix: ")
    if not label and ". Cause: " not in cause:
        return cause
    return what.replace(". Cause: ", ": ")


def _remade(kind: type[CdcError], subject: str, problem: str, cause: str, fix: str) -> CdcError:
    return kind(subject, problem, cause=cause, fix=fix)
