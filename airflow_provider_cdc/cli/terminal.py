"""``python -m airflow_provider_cdc``: looking at streams without Airflow and without a JVM."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from airflow_provider_cdc.engine.catalog import StreamCatalog
from airflow_provider_cdc.engine.core.errors import CdcError

from .lines import OVERVIEW, overview, stream_lines, text

app = typer.Typer(help="Change data capture for Delta Lake tables.", no_args_is_help=True)


# Columns of text where no terminal says how many it has.
_FILE_WIDTH = 200


class Output(StrEnum):
    """How lines are printed."""

    TABLE = "table"
    JSON = "json"


@app.callback()
def main() -> None:
    """Change data capture for Delta Lake tables."""


@app.command()
def streams(
    state: Annotated[
        str, typer.Option(envvar="CDC_STATE", help="The state folder: a URI or an absolute path.")
    ],
    name: Annotated[str | None, typer.Argument(help="One stream; all of them by default.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    storage_options: Annotated[
        str,
        typer.Option(
            envvar="CDC_STORAGE_OPTIONS",
            hidden=True,
            help="JSON object of the store's options; by the environment, for it may hold secrets.",
        ),
    ] = "{}",
) -> None:
    """Show streams, or describe one: offset, how far it is behind, whether it is stale.

    Seed 000, SHOW STREAMS and DESCRIBE STREAM.
    """
    try:
        catalog = StreamCatalog(state, storage_options=json.loads(storage_options))
        lines = stream_lines(catalog, name)
    except CdcError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if output is Output.JSON:
        typer.echo(json.dumps(lines, indent=2))
    elif name is None:
        table = Table()
        for column in OVERVIEW:
            table.add_column(column, overflow="fold")
        for line in lines:
            table.add_row(*overview(line).values())
        Console(width=None if sys.stdout.isatty() else _FILE_WIDTH).print(table)
    else:
        for column, value in lines[0].items():
            typer.echo(f"{column:20}{text(value)}".rstrip())
