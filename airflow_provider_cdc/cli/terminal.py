"""``python -m airflow_provider_cdc``: looking at streams without Airflow and without a JVM."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from airflow_provider_cdc.engine.catalog import StreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.upserts.jobs import Usage
from airflow_provider_cdc.engine.core.upserts.jobs import usage as used
from airflow_provider_cdc.engine.storage.job_history import JobHistory

from .lines import (
    OVERVIEW,
    UPSERTS_OVERVIEW,
    nothing_there,
    overview,
    stream_lines,
    text,
    upsert_lines,
    usage_lines,
)

app = typer.Typer(
    help="Change data capture for Delta Lake tables.",
    no_args_is_help=True,
    # They hold the secrets of stores; not every version of typer hides them by itself.
    pretty_exceptions_show_locals=False,
)


# Columns of text where no terminal says how many it has.
_FILE_WIDTH = 200


State = Annotated[
    str, typer.Option(envvar="CDC_STATE", help="The state folder: a URI or an absolute path.")
]
StorageOptions = Annotated[
    str,
    typer.Option(
        envvar="CDC_STORAGE_OPTIONS",
        hidden=True,
        help="JSON object of the store's options; by the environment, for it may hold secrets.",
    ),
]


class Output(StrEnum):
    """How lines are printed."""

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
    if output is Output.JSON:
        typer.echo(json.dumps(lines, indent=2))
    elif name is None:
        _print_table(OVERVIEW, [overview(line) for line in lines])
    else:
        width = max(map(len, lines[0])) + 2
        for column, value in lines[0].items():
            typer.echo(f"{column:{width}}{text(value)}".rstrip())


@app.command()
def upsert_tables(
    state: State,
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show upsert tables: what is applied, what waits, and how much is in quarantine."""
    lines = _lines(state, storage_options, upsert_lines)
    if output is Output.JSON:
        typer.echo(json.dumps(lines, indent=2))
    else:
        _print_table(UPSERTS_OVERVIEW, [overview(line, UPSERTS_OVERVIEW) for line in lines])


@app.command()
def usage(
    state: State,
    days: Annotated[int, typer.Option(min=1, help="How far back to look.")] = 7,
    minutes: Annotated[int, typer.Option(min=1, help="How long a period is.")] = 60,
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show what the jobs of upsert tables used: by period and class, with a plot of their slots."""
    try:
        history = JobHistory(state, json.loads(storage_options))
        since = utc_now() - timedelta(days=days)
        jobs = history.read(since)
    except CdcError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    lines = usage_lines(used(jobs, timedelta(minutes=minutes), since))
    if output is Output.JSON:
        typer.echo(json.dumps(lines, indent=2))
    else:
        columns = [field.name for field in fields(Usage)]
        _print_table([*columns, "plot"], lines)


def _lines(
    state: str, storage_options: str, look: Callable[[StreamCatalog], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """What ``look`` finds in a state folder; an error ends the command."""
    try:
        catalog = StreamCatalog(state, storage_options=json.loads(storage_options))
        lines = look(catalog)
        note = None if lines else nothing_there(catalog, state)
    except CdcError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if note is not None:
        typer.echo(note, err=True)
    return lines


def _print_table(columns: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> None:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in lines:
        table.add_row(*(text(line[column]) for column in columns))
    Console(width=None if sys.stdout.isatty() else _FILE_WIDTH).print(table)
