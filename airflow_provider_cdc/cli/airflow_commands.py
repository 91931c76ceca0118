"""``airflow cdc``: show the streams, change streams and upsert tables of a connection, and create,
read and move streams.

Every ``airflow`` command imports this module, so it must import quickly.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ARG_YES,
    ActionCommand,
    Arg,
    GroupCommand,
    lazy_load_command,
)

from .act_options import (
    ALTER_OPTIONS,
    CREATE_OPTIONS,
    LIMIT_HELP,
    MOST_ROWS,
    NO_JOB_HELP,
    REWIND_HELP,
    ActOption,
    Takes,
)

if TYPE_CHECKING:
    from argparse import Namespace

_ACTS = f"{__package__}.airflow_acts"


def _seconds(text: str) -> float:
    from airflow_provider_cdc.engine.core.errors import CdcError  # noqa: PLC0415

    from .text_tables import refresh_seconds  # noqa: PLC0415

    try:
        return refresh_seconds(text)
    except CdcError as error:
        # argparse shows the text of no other error.
        raise ArgumentTypeError(str(error)) from None


def _args(options: Sequence[ActOption]) -> tuple[Arg, ...]:
    """The options of a command for argparse."""
    given = {
        Takes.VALUE: {},
        Takes.NOTHING: {"action": "store_true"},
        Takes.SEVERAL: {"action": "append"},
    }
    return tuple(
        Arg((each.flag,), help=each.help, **given[each.takes])  # type: ignore[no-untyped-call]
        for each in options
    )


_NAME = Arg(("name",), nargs="?", default=None, help="one stream; all of them by default")  # type: ignore[no-untyped-call]
_STREAM = Arg(("name",), help="the stream")  # type: ignore[no-untyped-call]
_EVERY = Arg(("--every",), type=_seconds, default=5.0, help="seconds between two refreshes")  # type: ignore[no-untyped-call]
_LIMIT = Arg(("--limit",), type=int, default=MOST_ROWS, help=LIMIT_HELP)  # type: ignore[no-untyped-call]
_TO = Arg(("--to",), required=True, help=REWIND_HELP)  # type: ignore[no-untyped-call]
_NO_JOB = Arg(("--no-job",), action="store_true", help=NO_JOB_HELP)  # type: ignore[no-untyped-call]
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
    doctor = ActionCommand(
        name="doctor",
        help="Check what jobs and monitors need",
        description="Check Java, Spark, Delta, the connections, the state folder, the sources and"
        " the monitor, one line each, with what to do. It also runs a Spark job, which checks what"
        " its driver and executors reach. Run it where workers run.",
        func=lazy_load_command("airflow_provider_cdc.cli.airflow_doctor.doctor"),
        args=(_NO_JOB, _CONN_ID, ARG_VERBOSE),
    )
    commands = (
        doctor,
        streams,
        describe,
        watch,
        history,
        explain,
        *_acts(),
        change_streams,
        upsert_tables,
    )
    return [GroupCommand("cdc", help="Change data capture for Delta Lake", subcommands=commands)]


def _acts() -> list[ActionCommand]:
    """The commands that act on one stream."""
    return [
        ActionCommand(
            name="create",
            help="Create a stream",
            description="Create a stream on a table, a view or a folder of files. It runs a Spark"
            " job, as the operator CreateStream does.",
            func=lazy_load_command(f"{_ACTS}.create"),
            args=(_STREAM, *_args(CREATE_OPTIONS), _CONN_ID, ARG_YES, ARG_VERBOSE),
        ),
        ActionCommand(
            name="alter",
            help="Change attributes of a stream",
            description="Change attributes of a stream. Those that are not given stay as they are;"
            " needs no JVM.",
            func=lazy_load_command(f"{_ACTS}.alter"),
            args=(_STREAM, *_args(ALTER_OPTIONS), _CONN_ID),
        ),
        ActionCommand(
            name="read",
            help="Show rows of a change set",
            description="Show rows of the change set of a stream, in no order. No offset moves. It"
            " runs a Spark job.",
            func=lazy_load_command(f"{_ACTS}.read"),
            args=(_STREAM, _LIMIT, _CONN_ID, ARG_OUTPUT, ARG_VERBOSE),
        ),
        ActionCommand(
            name="advance",
            help="Move a stream to the end of its source",
            description="Skip the changes that wait: no target gets them; needs no JVM.",
            func=lazy_load_command(f"{_ACTS}.advance"),
            args=(_STREAM, _CONN_ID, ARG_YES),
        ),
        ActionCommand(
            name="rewind",
            help="Move a stream back",
            description="Move a stream back to an earlier point. It returns the changes after it"
            " again. It runs a Spark job.",
            func=lazy_load_command(f"{_ACTS}.rewind"),
            args=(_STREAM, _TO, _CONN_ID, ARG_YES, ARG_VERBOSE),
        ),
        ActionCommand(
            name="drop",
            help="Drop a stream",
            description="Drop a stream; its source and its targets stay unchanged; needs no JVM.",
            func=lazy_load_command(f"{_ACTS}.drop"),
            args=(_STREAM, _CONN_ID, ARG_YES),
        ),
    ]


def streams(args: Namespace) -> None:
    """Print the streams of a connection; see :func:`get_commands`."""
    from .airflow_settings import TABLE, lines_of, show  # noqa: PLC0415 - keep other commands quick
    from .lines import stream_lines  # noqa: PLC0415
    from .text_tables import STREAMS, print_described  # noqa: PLC0415

    lines = lines_of(args.conn_id, lambda settings: stream_lines(settings.catalog(), args.name))
    if args.output == TABLE and args.name:
        print_described(lines[0])
    else:
        show(STREAMS, lines, args.output)


def watch(args: Namespace) -> None:
    """Show the streams of a connection again and again; see :func:`get_commands`."""
    from .airflow_settings import lines_of  # noqa: PLC0415
    from .lines import stream_lines  # noqa: PLC0415
    from .text_tables import STREAMS  # noqa: PLC0415
    from .text_tables import watch as refresh_table  # noqa: PLC0415

    refresh_table(
        STREAMS,
        lambda: lines_of(args.conn_id, lambda settings: stream_lines(settings.catalog(), None)),
        args.every,
    )


def history(args: Namespace) -> None:
    """Print the moves of a stream; see :func:`get_commands`."""
    from .airflow_settings import lines_of, show  # noqa: PLC0415
    from .lines import history_lines  # noqa: PLC0415
    from .text_tables import HISTORY  # noqa: PLC0415

    lines = lines_of(args.conn_id, lambda settings: history_lines(settings.catalog(), args.name))
    show(HISTORY, lines, args.output)


def explain(args: Namespace) -> None:
    """Print how the change set of a stream would be read; see :func:`get_commands`."""
    from .airflow_settings import lines_of, show  # noqa: PLC0415
    from .lines import plan_lines  # noqa: PLC0415
    from .text_tables import PLAN  # noqa: PLC0415

    lines = lines_of(args.conn_id, lambda settings: plan_lines(settings.catalog(), args.name))
    show(PLAN, lines, args.output)


def change_streams(args: Namespace) -> None:
    """Print the change streams of a connection; see :func:`get_commands`."""
    from .airflow_settings import lines_of, show  # noqa: PLC0415
    from .lines import change_stream_lines  # noqa: PLC0415
    from .text_tables import CHANGE_STREAMS  # noqa: PLC0415

    lines = lines_of(args.conn_id, lambda settings: change_stream_lines(settings.change_streams()))
    show(CHANGE_STREAMS, lines, args.output)


def upsert_tables(args: Namespace) -> None:
    """Print the upsert tables of a connection; see :func:`get_commands`."""
    from .airflow_settings import lines_of, show  # noqa: PLC0415
    from .lines import upsert_lines  # noqa: PLC0415
    from .text_tables import UPSERT_TABLES  # noqa: PLC0415

    lines = lines_of(args.conn_id, lambda settings: upsert_lines(settings.catalog()))
    show(UPSERT_TABLES, lines, args.output)
