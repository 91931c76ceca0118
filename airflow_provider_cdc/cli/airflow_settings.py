"""What the commands of ``airflow cdc`` share: the connection, output and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_cdc.engine.core.errors import CdcError, InvalidRequest
from airflow_provider_cdc.hooks.connection import CdcConnection

from .lines import checked
from .text_tables import Column, print_table, text

TABLE = "table"
"""The output that this package prints itself; Airflow prints the others."""


def connection_settings(conn_id: str) -> CdcConnection:
    """The settings of a connection of type ``cdc``.

    :raises InvalidRequest: there is no such connection, or it is incomplete or malformed
    """
    try:
        extra = Connection.get_connection_from_secrets(conn_id).extra_dejson
    except AirflowNotFoundException:
        raise InvalidRequest(
            f"connection {conn_id}", "does not exist", fix="create a connection of type cdc"
        ) from None
    return CdcConnection.from_extra(conn_id, extra)


def lines_of(
    conn_id: str, query: Callable[[CdcConnection], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the result of ``query`` on the state folder of a connection.

    An error or a state folder without a registry ends the command.
    """
    try:
        settings = connection_settings(conn_id)
        return checked(settings.catalog(), query(settings))
    except CdcError as error:
        raise SystemExit(str(error)) from None


def show(columns: Sequence[Column], lines: Sequence[Mapping[str, Any]], output: str) -> None:
    """Print ``lines``: a table of ``columns``, or all columns in another of Airflow's formats."""
    if output == TABLE:
        print_table(columns, lines)
    else:
        print_data(lines, output)


def print_data(lines: Sequence[Mapping[str, Any]], output: str) -> None:
    """Print ``lines`` with all their columns in one of Airflow's formats."""
    from airflow.cli.simple_table import AirflowConsole  # noqa: PLC0415 - a table needs it not

    data = [{name: text(value) for name, value in line.items()} for line in lines]
    AirflowConsole().print_as(data=data, output=output)
