"""The acts of ``python -m airflow_provider_cdc``. Those that need Spark start a local session."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.arguments.points import point_of
from airflow_provider_cdc.engine.core.errors import CdcError, UnsupportedEnvironment
from airflow_provider_cdc.engine.core.findings import Finding
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.jobs.model import StreamRows

from .act_options import (
    ALTER_OPTIONS,
    CREATE_OPTIONS,
    LIMIT_HELP,
    MOST_ROWS,
    REWIND_HELP,
    ActOption,
    Takes,
)
from .acts import (
    altered_line,
    existing_stream,
    read_task,
    rewind_task,
    row_lines,
    stream_line,
    stream_spec,
)
from .lines import moved_line
from .terminal_options import (
    AnyOutput,
    Output,
    Principal,
    State,
    StorageOptions,
    StreamName,
    Yes,
    options_of,
    plain_errors,
    print_data,
)
from .text_tables import print_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_cdc.engine import Engine

Command = TypeVar("Command", bound=Callable[..., None])
Found = TypeVar("Found")
_TYPES: dict[Takes, Any] = {
    Takes.VALUE: str | None,
    Takes.NOTHING: bool,
    Takes.SEVERAL: list[str] | None,
}


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _with_options(options: Sequence[ActOption]) -> Callable[[Command], Command]:
    """Let typer give a command each of ``options`` as a keyword argument."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        added = [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if option.takes is Takes.NOTHING else None,
                annotation=Annotated[
                    _TYPES[option.takes], typer.Option(option.flag, help=_sentence(option.help))
                ],
            )
            for option in options
        ]
        command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        return command

    return decorate


@_with_options(CREATE_OPTIONS)
def create(
    state: State,
    name: StreamName,
    principal: Principal = None,
    yes: Yes = False,
    storage_options: StorageOptions = "{}",
    **given: Any,
) -> None:
    """Create a stream on a table, a view or a folder of files. It starts Spark on this machine."""
    with plain_errors():
        spec = stream_spec(name, given)
        if spec.or_replace:
            _confirm("replace", name, is_confirmed=yes)
        stream = existing_stream(_catalog(state, storage_options, principal), spec)
        stream = stream or _on_spark(
            state,
            storage_options,
            principal,
            lambda engine: engine.create_stream(**spec.arguments),
        )
        typer.echo(json.dumps(stream_line("create", stream)))


@_with_options(ALTER_OPTIONS)
def alter(
    state: State,
    name: StreamName,
    principal: Principal = None,
    storage_options: StorageOptions = "{}",
    **given: Any,
) -> None:
    """Change attributes of a stream. Those that are not given stay as they are."""
    with plain_errors():
        catalog = _catalog(state, storage_options, principal)
        typer.echo(json.dumps(altered_line(catalog, name, given)))


def read(
    state: State,
    name: StreamName,
    limit: Annotated[int, typer.Option(help=_sentence(LIMIT_HELP))] = MOST_ROWS,
    output: AnyOutput = Output.TABLE,
    principal: Principal = None,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show rows of the change set of a stream, in no order. No offset moves.

    It starts Spark on this machine.
    """
    with plain_errors():
        task = read_task(_catalog(state, storage_options, principal), name, limit)

        def rows(engine: Engine) -> StreamRows:
            from airflow_provider_cdc.jobs.stream_rows import stream_rows  # noqa: PLC0415

            return stream_rows(engine, task)

        found = _on_spark(state, storage_options, principal, rows)
    lines = row_lines(found)
    if output is Output.TABLE:
        print_rows(found.columns, lines)
    else:
        print_data(output, lines)


def advance(
    state: State,
    name: StreamName,
    principal: Principal = None,
    yes: Yes = False,
    storage_options: StorageOptions = "{}",
) -> None:
    """Move a stream to the end of its source. No target gets the changes that wait."""
    _move("advance", state, storage_options, name, principal, is_confirmed=yes)


def rewind(
    state: State,
    name: StreamName,
    to: Annotated[str, typer.Option(help=_sentence(REWIND_HELP))],
    principal: Principal = None,
    yes: Yes = False,
    storage_options: StorageOptions = "{}",
) -> None:
    """Move a stream back. It returns the changes after that point again.

    It starts Spark on this machine.
    """
    with plain_errors():
        task = rewind_task(_catalog(state, storage_options, principal), name, to)
        _confirm("rewind", name, is_confirmed=yes)
        point = point_of(task.to)
        assert point is not None  # the task holds a point
        stream = _on_spark(
            state,
            storage_options,
            principal,
            lambda engine: engine.rewind_stream(task.stream, to=point),
        )
        typer.echo(json.dumps(stream_line("rewind", stream)))


def drop(
    state: State,
    name: StreamName,
    principal: Principal = None,
    yes: Yes = False,
    storage_options: StorageOptions = "{}",
) -> None:
    """Drop a stream. Its source and its targets stay unchanged."""
    _move("drop", state, storage_options, name, principal, is_confirmed=yes)


def _move(
    act: str,
    state: str,
    storage_options: str,
    name: str,
    principal: str | None,
    *,
    is_confirmed: bool,
) -> None:
    """Advance or drop a stream, after a confirmation, and print what was done."""
    _confirm(act, name, is_confirmed=is_confirmed)
    with plain_errors():
        catalog = _catalog(state, storage_options, principal)
        typer.echo(json.dumps(moved_line(catalog, act, name)))


def _confirm(act: str, name: str, *, is_confirmed: bool) -> None:
    """Ask whether to do ``act``; without a yes, the command ends."""
    if not is_confirmed:
        typer.confirm(f"{act} stream {name}?", abort=True)


def spark_findings(state: str, storage_options: str) -> Iterator[Finding]:
    """Check what the driver and the executors of a local session reach."""
    files = Files(options_of(storage_options))

    def reach(_: Engine) -> tuple[Finding, ...]:
        from airflow_provider_cdc.engine.spark.session.folder_reach import (  # noqa: PLC0415
            reached,
        )

        return reached(state, _session(), files)

    try:
        yield from _on_spark(state, storage_options, None, reach)
    except CdcError as error:
        cause = f" ({error.cause})" if error.cause else ""
        yield Finding(error.subject, f"{error.problem}{cause}", error.fix or "read the message")


def _catalog(state: str, storage_options: str, principal: str | None) -> StreamCatalog:
    return StreamCatalog(state, storage_options=options_of(storage_options), principal=principal)


def _on_spark(
    state: str, storage_options: str, principal: str | None, work: Callable[[Engine], Found]
) -> Found:
    """The result of ``work`` on an engine with a local session.

    :raises CdcError: ``work`` failed, or Spark cannot start here
    """
    options = options_of(storage_options)
    # Its import refuses a machine without pyspark.
    from airflow_provider_cdc.engine import Engine  # noqa: PLC0415 - other commands need no Spark
    from airflow_provider_cdc.engine.spark.session.failures import (  # noqa: PLC0415
        first_line,
        log_no_query_errors,
    )

    log_no_query_errors()
    try:
        session = _session()
    except CdcError:
        raise
    except Exception as error:
        raise UnsupportedEnvironment(
            "Spark",
            "cannot start on this machine",
            cause=first_line(error),
            fix="run the doctor command, which checks Java, Spark and Delta",
        ) from None
    try:
        return work(Engine(session, state, storage_options=options, principal=principal))
    except CdcError:
        raise
    except Exception as error:
        raise CdcError("Spark", "ended with an error", cause=first_line(error)) from None


def _session() -> SparkSession:
    from airflow_provider_cdc.engine import local_session  # noqa: PLC0415

    return local_session("airflow_provider_cdc")
