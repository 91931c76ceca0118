"""``airflow cdc``: show the streams, change streams and upsert tables of a connection, and move
streams.

Every ``airflow`` command imports this module, so it must import quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_YES,
    ActionCommand,
    Arg,
    GroupCommand,
    lazy_load_command,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_provider_cdc.hooks.connection import CdcConnection

    from .text_tables import Column

_TABLE = "table"
_LEAST_SECONDS = 0.5


def _seconds(text: str) -> float:
    found = float(text)
    if not found >= _LEAST_SECONDS:
        raise ValueError(f"expected at least {_LEAST_SECONDS}, found {text}")
    return found


_NAME = Arg(("name",), nargs="?", default=None, help="one stream; all of them by default")  # type: ignore[no-untyped-call]
_STREAM = Arg(("name",), help="the stream")  # type: ignore[no-untyped-call]
_EVERY = Arg(("--every",), type=_seconds, default=5.0, help="seconds between two refreshes")  # type: ignore[no-untyped-call]
_CONN_ID = Arg(("--conn-id",), default="cdc_default", help="a connection of type cdc")  # type: ignore[no-untyped-call]


def get_commands() -> list[GroupCommand]:
    """Return the commands that the provider adds to ``airflow``."""
    streams = ActionCommand(
        name="streams",
        help="Show streams, or describe one",
        description="Show the offset and lag of each stream and whether it is stale; needs no JVM.",
        func=lazy_load_command(f"{__name__}.streams"),
        args=(_NAME, _CONN_ID, ARG_OUTPUT),
    )
    change_streams = ActionCommand(
        name="change-streams",
        help="Show change streams and their consumers",
        description="Show what is captured and waits, and how far each consumer is; needs no JVM.",
        func=lazy_load_command(f"{__name__}.change_streams"),
        args=(_CONN_ID, ARG_OUTPUT),
    )
    upsert_tables = ActionCommand(
        name="upsert-tables",
        help="Show upsert tables",
        description="Show applied, waiting and quarantined changes of each table; needs no JVM.",
        func=lazy_load_command(f"{__name__}.upsert_tables"),
        args=(_CONN_ID, ARG_OUTPUT),
    )
    describe = ActionCommand(
        name="describe",
        help="Describe a stream",
        description="Show every column of one stream; needs no JVM.",
        func=lazy_load_command(f"{__name__}.streams"),
        args=(_STREAM, _CONN_ID, ARG_OUTPUT),
    )
    watch = ActionCommand(
        name="watch",
        help="Show streams, and refresh them in place",
        description="Show the streams of a connection again and again until Ctrl-C; needs no JVM.",
        func=lazy_load_command(f"{__name__}.watch"),
        args=(_CONN_ID, _EVERY),
    )
    history = ActionCommand(
        name="history",
        help="Show who moved a stream",
        description="Show when, by whom and to which version a stream was moved; needs no JVM.",
        func=lazy_load_command(f"{__name__}.history"),
        args=(_STREAM, _CONN_ID, ARG_OUTPUT),
    )
    explain = ActionCommand(
        name="explain",
        help="Show how a change set would be read",
        description="Show the files, bytes and commits of a stream's change set; needs no JVM.",
        func=lazy_load_command(f"{__name__}.explain"),
        args=(_STREAM, _CONN_ID, ARG_OUTPUT),
    )
    advance = ActionCommand(
        name="advance",
        help="Move a stream to the end of its source",
        description="Skip the changes that wait: no target gets them; needs no JVM.",
        func=lazy_load_command(f"{__name__}.advance"),
        args=(_STREAM, _CONN_ID, ARG_YES),
    )
    drop = ActionCommand(
        name="drop",
        help="Drop a stream",
        description="Drop a stream; its source and its targets stay unchanged; needs no JVM.",
        func=lazy_load_command(f"{__name__}.drop"),
        args=(_STREAM, _CONN_ID, ARG_YES),
    )
    doctor = ActionCommand(
        name="doctor",
        help="Check what jobs and monitors need",
        description="Check Java, Spark, Delta, the connections, the state folder, the sources and"
        " the monitor, one line each, with what to do. Run it where workers run.",
        func=lazy_load_command(f"{__name__}.doctor"),
        args=(_CONN_ID,),
    )
    commands = (
        doctor,
        streams,
        describe,
        watch,
        history,
        explain,
        advance,
        drop,
        change_streams,
        upsert_tables,
    )
    return [GroupCommand("cdc", help="Change data capture for Delta Lake", subcommands=commands)]


def streams(args: Namespace) -> None:
    """Print the streams of a connection; see :func:`get_commands`."""
    from .lines import stream_lines  # noqa: PLC0415 - keep other commands quick
    from .text_tables import STREAMS, print_described, print_table  # noqa: PLC0415

    lines = _lines(args.conn_id, lambda settings: stream_lines(settings.catalog(), args.name))
    if args.output != _TABLE:
        _print(lines, args.output)
    elif args.name:
        print_described(lines[0])
    else:
        print_table(STREAMS, lines)


def doctor(args: Namespace) -> None:
    """Print what was checked; see :func:`get_commands`."""
    from airflow.models.connection import Connection  # noqa: PLC0415
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415

    from airflow_provider_cdc.engine.core.errors import CdcError  # noqa: PLC0415
    from airflow_provider_cdc.hooks.connection import CdcConnection  # noqa: PLC0415

    from .doctor import Finding, findings, on_this_machine  # noqa: PLC0415

    def connections() -> Iterator[Finding]:
        name = f"connection {args.conn_id}"
        try:
            extra = Connection.get_connection_from_secrets(args.conn_id).extra_dejson
            settings = CdcConnection.from_extra(args.conn_id, extra)
        except (AirflowNotFoundException, CdcError) as error:
            if isinstance(error, CdcError):
                yield Finding(name, error.problem, error.fix)
            else:
                yield Finding(name, "does not exist", "create a connection of type cdc")
            yield from on_this_machine()
            return
        yield Finding(name, f"state folder {settings.state}")
        name = f"connection {settings.spark_conn_id}"
        try:
            spark = Connection.get_connection_from_secrets(settings.spark_conn_id)
        except AirflowNotFoundException:
            yield Finding(name, "does not exist", "create it, or correct spark_conn_id")
        else:
            yield Finding(name, f"type {spark.conn_type}, host {spark.host}")
        yield from findings(settings.state, settings.store_options)

    is_well = True
    for found in connections():
        print(found.line)
        is_well &= found.fix is None
    raise SystemExit(0 if is_well else 1)


def watch(args: Namespace) -> None:
    """Show the streams of a connection again and again; see :func:`get_commands`."""
    from .lines import stream_lines  # noqa: PLC0415
    from .text_tables import STREAMS  # noqa: PLC0415
    from .text_tables import watch as refresh_table  # noqa: PLC0415

    refresh_table(
        STREAMS,
        lambda: _lines(args.conn_id, lambda settings: stream_lines(settings.catalog(), None)),
        args.every,
    )


def history(args: Namespace) -> None:
    """Print the moves of a stream; see :func:`get_commands`."""
    from .lines import history_lines  # noqa: PLC0415
    from .text_tables import HISTORY  # noqa: PLC0415

    lines = _lines(args.conn_id, lambda settings: history_lines(settings.catalog(), args.name))
    _show(HISTORY, lines, args.output)


def explain(args: Namespace) -> None:
    """Print how the change set of a stream would be read; see :func:`get_commands`."""
    from .lines import plan_lines  # noqa: PLC0415
    from .text_tables import PLAN  # noqa: PLC0415

    lines = _lines(args.conn_id, lambda settings: plan_lines(settings.catalog(), args.name))
    _show(PLAN, lines, args.output)


def advance(args: Namespace) -> None:
    """Advance a stream; see :func:`get_commands`."""
    _act("advance", args)


def drop(args: Namespace) -> None:
    """Drop a stream; see :func:`get_commands`."""
    _act("drop", args)


def _act(act: str, args: Namespace) -> None:
    """Do an act to a stream, after a confirmation, and print what it did."""
    import json  # noqa: PLC0415

    from .lines import moved_line  # noqa: PLC0415

    if not args.yes and input(f"{act} stream {args.name}? [y/N] ").strip().lower() != "y":
        raise SystemExit("Nothing was done.")
    (line,) = _lines(
        args.conn_id, lambda settings: [moved_line(settings.catalog(), act, args.name)]
    )
    print(json.dumps(line))


def change_streams(args: Namespace) -> None:
    """Print the change streams of a connection; see :func:`get_commands`."""
    from .lines import change_stream_lines  # noqa: PLC0415
    from .text_tables import CHANGE_STREAMS  # noqa: PLC0415

    lines = _lines(args.conn_id, lambda settings: change_stream_lines(settings.change_streams()))
    _show(CHANGE_STREAMS, lines, args.output)


def upsert_tables(args: Namespace) -> None:
    """Print the upsert tables of a connection; see :func:`get_commands`."""
    from .lines import upsert_lines  # noqa: PLC0415
    from .text_tables import UPSERT_TABLES  # noqa: PLC0415

    lines = _lines(args.conn_id, lambda settings: upsert_lines(settings.catalog()))
    _show(UPSERT_TABLES, lines, args.output)


def _lines(
    conn_id: str, query: Callable[[CdcConnection], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the result of ``query`` on the state folder of a connection.

    An error or a state folder without a registry ends the command.
    """
    from airflow.models.connection import Connection  # noqa: PLC0415
    from airflow.sdk.exceptions import AirflowNotFoundException  # noqa: PLC0415

    from airflow_provider_cdc.engine.core.errors import CdcError  # noqa: PLC0415
    from airflow_provider_cdc.hooks.connection import CdcConnection  # noqa: PLC0415

    from .lines import checked  # noqa: PLC0415

    try:
        connection = Connection.get_connection_from_secrets(conn_id)
        settings = CdcConnection.from_extra(conn_id, connection.extra_dejson)
        return checked(settings.catalog(), query(settings))
    except (CdcError, AirflowNotFoundException) as error:
        raise SystemExit(str(error)) from None


def _show(columns: Sequence[Column], lines: Sequence[Mapping[str, Any]], output: str) -> None:
    """Print ``lines``: a table of ``columns``, or all columns in another of Airflow's formats."""
    from .text_tables import print_table  # noqa: PLC0415

    if output == _TABLE:
        print_table(columns, lines)
    else:
        _print(lines, output)


def _print(lines: Sequence[Mapping[str, Any]], output: str) -> None:
    """Print ``lines`` with all their columns in one of Airflow's formats."""
    from airflow.cli.simple_table import AirflowConsole  # noqa: PLC0415

    from .text_tables import text  # noqa: PLC0415

    data = [{name: text(value) for name, value in line.items()} for line in lines]
    AirflowConsole().print_as(data=data, output=output)
