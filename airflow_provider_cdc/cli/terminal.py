"""``python -m airflow_provider_cdc``: show streams, change streams and upsert tables, and move
streams, without Airflow or a JVM.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.arguments.intervals import interval_of, period_of
from airflow_provider_cdc.engine.core.errors import CdcError, InvalidRequest
from airflow_provider_cdc.engine.core.upserts.job_records import usage as used
from airflow_provider_cdc.engine.storage.state.job_history import JobHistory

from .doctor import findings
from .lines import (
    change_stream_lines,
    checked,
    history_lines,
    moved_line,
    plan_lines,
    stream_lines,
    upsert_lines,
    usage_lines,
)
from .text_tables import (
    CHANGE_STREAMS,
    HISTORY,
    PLAN,
    STREAMS,
    UPSERT_TABLES,
    USAGE,
    Column,
    print_described,
    print_table,
)
from .text_tables import watch as refresh_table

app = typer.Typer(
    help="Change data capture for Delta Lake tables.",
    no_args_is_help=True,
    # Locals hold the secrets of stores, and not every version of typer hides them by default.
    pretty_exceptions_show_locals=False,
)


State = Annotated[
    str, typer.Option(envvar="CDC_STATE", help="The state folder: a URI or an absolute path.")
]
StorageOptions = Annotated[
    str,
    typer.Option(
        envvar="CDC_STORAGE_OPTIONS",
        hidden=True,
        help="JSON object of the store's options; set in the environment, as it may hold secrets.",
    ),
]


Principal = Annotated[
    str | None, typer.Option(help="Who does it; by default the user of this process.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class Output(StrEnum):
    """The format of the printed lines."""

    TABLE = "table"
    JSON = "json"


@app.callback()
def main() -> None:
    """Change data capture for Delta Lake tables."""


@app.command()
def streams(
    state: State,
    name: Annotated[str | None, typer.Argument(help="One stream; all of them by default.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show streams, or describe one: offset, how far it is behind, whether it is stale."""
    lines = _lines(state, storage_options, lambda catalog: stream_lines(catalog, name))
    if output is Output.TABLE and name is not None:
        print_described(lines[0])
    else:
        _print(output, STREAMS, lines)


@app.command()
def describe(
    state: State,
    name: Annotated[str, typer.Argument(help="The stream.")],
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Describe one stream, column by column: the same as streams with its name."""
    streams(state, name, output, storage_options)


@app.command()
def watch(
    state: State,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between two refreshes.")] = 5.0,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show streams, and refresh them in place until Ctrl-C."""
    refresh_table(
        STREAMS,
        lambda: _lines(state, storage_options, lambda catalog: stream_lines(catalog, None)),
        every,
    )


@app.command()
def doctor(state: State, storage_options: StorageOptions = "{}") -> None:
    """Check Java, Spark, Delta, the state folder, the sources and the monitor."""
    is_well = True
    try:
        for found in findings(state, _options(storage_options)):
            typer.echo(found.line)
            is_well &= found.fix is None
    except CdcError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(0 if is_well else 1)


@app.command()
def history(
    state: State,
    name: Annotated[str, typer.Argument(help="The stream.")],
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show who moved a stream, when, to which version, and how many rows were consumed."""
    found = _lines(state, storage_options, lambda catalog: history_lines(catalog, name))
    _print(output, HISTORY, found)


@app.command()
def explain(
    state: State,
    name: Annotated[str, typer.Argument(help="The stream.")],
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show how the change set of a stream would be read now: files, bytes, commits and why."""
    found = _lines(state, storage_options, lambda catalog: plan_lines(catalog, name))
    _print(output, PLAN, found)


@app.command()
def advance(
    state: State,
    name: Annotated[str, typer.Argument(help="The stream.")],
    principal: Principal = None,
    yes: Yes = False,
    storage_options: StorageOptions = "{}",
) -> None:
    """Move a stream to the end of its source. No target gets the changes that wait."""
    _act("advance", state, storage_options, name, principal, is_confirmed=yes)


@app.command()
def drop(
    state: State,
    name: Annotated[str, typer.Argument(help="The stream.")],
    principal: Principal = None,
    yes: Yes = False,
    storage_options: StorageOptions = "{}",
) -> None:
    """Drop a stream. Its source and its targets stay unchanged."""
    _act("drop", state, storage_options, name, principal, is_confirmed=yes)


@app.command()
def change_streams(
    state: State,
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show change streams: what is captured, what waits, and how far each consumer is."""

    def query(_: StreamCatalog) -> list[dict[str, Any]]:
        options = _options(storage_options)
        return change_stream_lines(ChangeStreamCatalog(state, storage_options=options))

    _print(output, CHANGE_STREAMS, _lines(state, storage_options, query))


@app.command()
def upsert_tables(
    state: State,
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show upsert tables: what is applied, what waits, and how much is in quarantine."""
    _print(output, UPSERT_TABLES, _lines(state, storage_options, upsert_lines))


@app.command()
def usage(
    state: State,
    since: Annotated[str, typer.Option(help="How far back: P7D or INTERVAL 7 DAY.")] = "P7D",
    period: Annotated[str, typer.Option(help="How long a period is.")] = "PT1H",
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show what the jobs of upsert tables used: by period and class, with a plot of their slots."""

    def query(_: StreamCatalog) -> list[dict[str, Any]]:
        begin, each = utc_now() - interval_of(since, "--since"), period_of(period, "--period")
        jobs = JobHistory(state, _options(storage_options)).read(begin)
        return usage_lines(used(jobs, each, begin))

    _print(output, USAGE, _lines(state, storage_options, query))


def _lines(
    state: str, storage_options: str, query: Callable[[StreamCatalog], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the result of ``query`` on the catalog of a state folder.

    An error or a folder without a registry ends the command.
    """
    try:
        catalog = StreamCatalog(state, storage_options=_options(storage_options))
        return checked(catalog, query(catalog))
    except CdcError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def _act(
    act: str,
    state: str,
    storage_options: str,
    name: str,
    principal: str | None,
    *,
    is_confirmed: bool,
) -> None:
    """Do an act to a stream, after a confirmation, and print what it did."""
    if not is_confirmed:
        typer.confirm(f"{act} stream {name}?", abort=True)
    try:
        options = _options(storage_options)
        catalog = StreamCatalog(state, storage_options=options, principal=principal)
        typer.echo(json.dumps(moved_line(catalog, act, name)))
    except CdcError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def _options(text: str) -> dict[str, str]:
    """Return the options of the store.

    :raises InvalidRequest: ``text`` is not a JSON object; the message does not repeat ``text``
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidRequest(
            "storage options",
            "cannot be read",
            cause="expected a JSON object, found something else",
            fix='set CDC_STORAGE_OPTIONS to something like {"AWS_REGION": "eu-west-1"}',
        )
    return found


def _print(output: Output, columns: Sequence[Column], lines: list[dict[str, Any]]) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps(lines, indent=2))
    else:
        print_table(columns, lines)
