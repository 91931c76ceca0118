"""The log lines that report what a job did. A consumption logs its own lines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.filesize import decimal

from airflow_provider_cdc.engine.core.archives.archive_outcome import ArchiveOutcome
from airflow_provider_cdc.engine.core.figures import counted, length_text
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.core.retention.table_retention import Maintenance, SourceRetention
from airflow_provider_cdc.engine.core.upserts.definition import UpsertTable
from airflow_provider_cdc.engine.core.verification.verification import KeyDifference

from .model import (
    Answer,
    ApplyChanges,
    CheckReach,
    ConsumeStreams,
    ConsumptionResult,
    ExportChanges,
    ExportTable,
    ReadStream,
    Request,
    StreamHasData,
)
from .upsert_tasks import (
    AlterUpsertTable,
    ApplyUpserts,
    DropUpsertTable,
    RedriveChanges,
    WriteChanges,
)


def answer_lines(request: Request, answer: Answer) -> tuple[str, ...]:
    """The lines that report ``answer``; empty if they are logged elsewhere.

    :param answer: an answer without an error
    """
    return _lines_of_result(answer) or _lines_of_task(request, answer)


def results_line(found: Sequence[ConsumptionResult]) -> str:
    """How many of several consumptions consumed, had nothing to consume, and failed."""
    failed = sum(each.error is not None for each in found)
    done = sum(each.outcome is not None for each in found)
    parts = {"done": done, "without data": len(found) - done - failed, "failed": failed}
    shown = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
    return f"{counted(len(found), 'consumption')}: {shown or 'nothing to do'}"


def _lines_of_result(answer: Answer) -> tuple[str, ...]:
    if answer.stream is not None:
        return (_stream_line(answer.stream),)
    if answer.upsert_table is not None:
        return (_table_line(answer.upsert_table),)
    if answer.maintenance is not None:
        return _maintenance_lines(answer.maintenance)
    if answer.verification is not None:
        found = answer.verification
        return (found.summary, *map(_difference_line, found.differences))
    if answer.change_stream is not None:
        return (repr(answer.change_stream).strip("<>"),)
    if answer.partition is not None:
        found_read = answer.partition
        return (f"partition: read from {found_read.start_timestamp} to {found_read.end_timestamp}",)
    if answer.archived is not None:
        return (_archive_line(answer.archived),)
    return ()


def _lines_of_task(request: Request, answer: Answer) -> tuple[str, ...]:
    match request.task:
        case ApplyUpserts() as task if answer.outcome is None:
            return (f"upsert table {task.table}: no change waits",)
        case ApplyChanges() as task if answer.outcome is None:
            return (f"{task.request.subject}: nothing waits",)
        case ConsumeStreams():
            return (results_line(answer.consumptions),)
        case StreamHasData() as task:
            return (f"stream {task.stream}: has {'' if answer.has_data else 'no '}data",)
        case CheckReach():
            return tuple(each.line for each in answer.reached)
        case ReadStream() as task if answer.rows is not None:
            return (f"stream {task.stream}: read {counted(len(answer.rows.rows), 'row')}",)
        case ExportChanges() as task:
            return (f"changes of {task.name}: are written to {task.target}",)
        case ExportTable() as task:
            return (f"rows of upsert table {task.table}: are written to {task.target}",)
        case WriteChanges() as task if answer.written is not None:
            return (f"upsert table {task.table}: {answer.written.text}",)
        case AlterUpsertTable() as task:
            return (f"upsert table {task.table}: is altered",)
        case DropUpsertTable() as task:
            return (f"upsert table {task.table}: is dropped",)
        case RedriveChanges() as task:
            count = counted(answer.redriven or 0, "change")
            return (f"upsert table {task.table}: released {count} from quarantine",)
    return ()


def _stream_line(stream: Stream) -> str:
    return f"stream {stream.name}: is on {stream.table_on}, at version {stream.offset.version}"


def _table_line(table: UpsertTable) -> str:
    longest = table.max_staleness
    freshness = "reads are fresh" if longest is None else f"max_staleness {length_text(longest)}"
    return f"upsert table {table.name}: is at {table.location}, {freshness}"


def _archive_line(found: ArchiveOutcome) -> str:
    more = "; later commits wait" if found.has_more else ""
    return (
        f"archive {found.archive}: holds {found.table} through version {found.through_version};"
        f" {counted(found.rows, 'change')} new{more}"
    )


def _difference_line(found: KeyDifference) -> str:
    return f"{found.kind.value}: {found.key}"


def _maintenance_lines(found: Maintenance) -> tuple[str, ...]:
    skipped = [f"stream {name}: has no data, its offset moved" for name in found.skipped]
    return (*skipped, *map(_source_line, found.sources))


def _source_line(source: SourceRetention) -> str:
    if source.problem:
        return f"{source.location}: {source.problem}"
    own = "" if source.own is None else f" {length_text(source.own)} by itself"
    if source.extension is None:
        return f"{source.location}: keeps{own} what its streams need"
    size = decimal(source.bytes_kept)
    return (
        f"{source.location}: keeps{own}, and {length_text(source.extension)} for"
        f" {', '.join(source.streams)}; {size} of removed files are kept for that"
    )
