"""What the commands of ``python -m airflow_provider_cdc`` share: options, output and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from airflow_provider_cdc.engine.core.errors import CdcError

from .acts import json_object
from .text_tables import Column, print_table

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
StreamName = Annotated[str, typer.Argument(help="The stream.")]


class Output(StrEnum):
    """How a command prints its lines."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


AnyOutput = Annotated[Output, typer.Option("--output", "-o", help="How to print the lines.")]


@contextmanager
def plain_errors() -> Iterator[None]:
    """End the command with an error of the engine in one line, and with the exit code 1."""
    try:
        yield
    except CdcError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def options_of(text: str) -> dict[str, str]:
    """The options of the store.

    :raises InvalidRequest: ``text`` is not a JSON object; the message does not repeat ``text``
    """
    return json_object("CDC_STORAGE_OPTIONS", text)


def print_lines(output: Output, columns: Sequence[Column], lines: list[dict[str, Any]]) -> None:
    """Print ``lines``: a table of ``columns``, or all columns in another format."""
    if output is Output.TABLE:
        print_table(columns, lines)
    else:
        print_data(output, lines)


def print_data(output: Output, lines: list[dict[str, Any]]) -> None:
    """Print ``lines`` as JSON or as YAML."""
    if output is Output.JSON:
        typer.echo(json.dumps(lines, indent=2))
        return
    # It imports PyYAML, which no other output needs.
    typer.echo(msgspec.yaml.encode(lines).decode(), nl=False)
