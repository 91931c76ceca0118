"""``airflow cdc``: the streams of a connection. Every ``airflow`` command imports this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.cli.cli_config import ARG_OUTPUT, ActionCommand, Arg, GroupCommand, lazy_load_command

if TYPE_CHECKING:
    from argparse import Namespace

_NAME = Arg(("name",), nargs="?", default=None, help="one stream; all of them by default")  # type: ignore[no-untyped-call]
_CONN_ID = Arg(("--conn-id",), default="cdc_default", help="a connection of type cdc")  # type: ignore[no-untyped-call]


def get_commands() -> list[GroupCommand]:
    """The commands that the provider adds to ``airflow``."""
    streams = ActionCommand(
        name="streams",
        help="Show streams, or describe one",
        description="Offset of each stream, how far it is behind and whether it is stale; no JVM.",
        func=lazy_load_command(f"{__name__}.streams"),
        args=(_NAME, _CONN_ID, ARG_OUTPUT),
    )
    return [GroupCommand("cdc", help="Change data capture for Delta Lake", subcommands=(streams,))]


def streams(args: Namespace) -> None:
    """Print the streams of a connection; see :func:`get_commands`."""
    from airflow.cli.simple_table import AirflowConsole  # noqa: PLC0415 - keep other commands quick
    from airflow.models.connection import Connection  # noqa: PLC0415

    from airflow_provider_cdc.engine.core.errors import CdcError  # noqa: PLC0415
    from airflow_provider_cdc.hooks.connection import CdcConnection  # noqa: PLC0415

    from .lines import overview, stream_lines, text  # noqa: PLC0415

    try:
        connection = Connection.get_connection_from_secrets(args.conn_id)
        settings = CdcConnection.from_extra(args.conn_id, connection.extra_dejson)
        lines = stream_lines(settings.catalog(), args.name)
    except CdcError as error:
        raise SystemExit(str(error)) from None
    if args.output == "table" and args.name:
        data = [{"column": name, "value": text(value)} for name, value in lines[0].items()]
    elif args.output == "table":
        data = [overview(line) for line in lines]
    else:
        data = [{name: text(value) for name, value in line.items()} for line in lines]
    AirflowConsole().print_as(data=data, output=args.output)
