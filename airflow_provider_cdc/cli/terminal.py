"""``python -m airflow_provider_cdc``: show streams, change streams and upsert tables, and create,
read and move streams, without Airflow. Only ``create``, ``read`` and ``rewind`` start a JVM.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Annotated, Any

import typer

from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.arguments.intervals import interval_of, period_of
from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.upserts.job_records import usage as used
from airflow_provider_cdc.engine.storage.state.job_history import JobHistory

from .act_options import NO_JOB_HELP
from .doctor import findings
from .lines import (
    change_stream_lines,
    checked,
    history_lines,
    plan_lines,
    stream_lines,
    upsert_lines,
    usage_lines,
)
from .terminal_acts import advance, alter, create, drop, read, rewind, spark_findings
from .terminal_options import (
    AnyOutput,
    Output,
    State,
    StorageOptions,
    StreamName,
    options_of,
    plain_errors,
    print_lines,
)
from .text_tables import (
    CHANGE_STREAMS,
    HISTORY,
    PLAN,
    STREAMS,
    UPSERT_TABLES,
    USAGE,
    print_described,
    refresh_seconds,
)
from .text_tables import watch as refresh_table

app = typer.Typer(
    help="Change data capture for Delta Lake tables.",
    no_args_is_help=True,
    # Locals hold the secrets of stores, and not every version of typer hides them by default.
    pretty_exceptions_show_locals=False,
)


def _every(given: str | float) -> float:
    try:
        return refresh_seconds(given)
    except CdcError as error:
        raise typer.BadParameter(str(error)) from None


@app.callback()
def main() -> None:
    """Change data capture for Delta Lake tables."""


@app.command()
def streams(
    state: State,
    name: Annotated[str | None, typer.Argument(help="One stream; all of them by default.")] = None,
    output: AnyOutput = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show streams, or describe one: offset, how far it is behind, whether it is stale."""
    lines = _lines(state, storage_options, lambda catalog: stream_lines(catalog, name))
    if output is Output.TABLE and name is not None:
        print_described(lines[0])
    else:
        print_lines(output, STREAMS, lines)


@app.command()
def describe(
    state: State,
    name: StreamName,
    output: AnyOutput = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Describe one stream, column by column: the same as streams with its name."""
    streams(state, name, output, storage_options)


@app.command()
def watch(
    state: State,
    every: Annotated[
        float, typer.Option(parser=_every, metavar="<float>", help="Seconds between two refreshes.")
    ] = 5.0,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show streams, and refresh them in place until Ctrl-C."""
    refresh_table(
        STREAMS,
        lambda: _lines(state, storage_options, lambda catalog: stream_lines(catalog, None)),
        every,
    )


@app.command()
def doctor(
    state: State,
    no_job: Annotated[bool, typer.Option("--no-job", help=f"{NO_JOB_HELP.capitalize()}.")] = False,
    storage_options: StorageOptions = "{}",
) -> None:
    """Check Java, Spark, Delta, the state folder, the sources and the monitor. It starts Spark on
    this machine.
    """
    is_well = True
    with plain_errors():
        found_here = findings(state, options_of(storage_options))
        on_spark = () if no_job else spark_findings(state, storage_options)
        for found in chain(found_here, on_spark):
            typer.echo(found.line)
            is_well &= found.fix is None
    raise typer.Exit(0 if is_well else 1)


@app.command()
def history(
    state: State,
    name: StreamName,
    output: AnyOutput = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show who moved a stream, when, to which version, and how many rows were consumed."""
    found = _lines(state, storage_options, lambda catalog: history_lines(catalog, name))
    print_lines(output, HISTORY, found)


@app.command()
def explain(
    state: State,
    name: StreamName,
    output: AnyOutput = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show how the change set of a stream would be read now: files, bytes, commits and why."""
    found = _lines(state, storage_options, lambda catalog: plan_lines(catalog, name))
    print_lines(output, PLAN, found)


@app.command()
def change_streams(
    state: State,
    output: AnyOutput = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show change streams: what is captured, what waits, and how far each consumer is."""

    def query(_: StreamCatalog) -> list[dict[str, Any]]:
        options = options_of(storage_options)
        return change_stream_lines(ChangeStreamCatalog(state, storage_options=options))

    print_lines(output, CHANGE_STREAMS, _lines(state, storage_options, query))


@app.command()
def upsert_tables(
    state: State,
    output: AnyOutput = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show upsert tables: what is applied, what waits, and how much is in quarantine."""
    print_lines(output, UPSERT_TABLES, _lines(state, storage_options, upsert_lines))


@app.command()
def usage(
    state: State,
    since: Annotated[str, typer.Option(help="How far back: P7D or INTERVAL 7 DAY.")] = "P7D",
    period: Annotated[str, typer.Option(help="How long a period is.")] = "PT1H",
    output: AnyOutput = Output.TABLE,
    storage_options: StorageOptions = "{}",
) -> None:
    """Show what the jobs of upsert tables used: by period and class, with a plot of their slots."""

    def query(_: StreamCatalog) -> list[dict[str, Any]]:
        begin, each = utc_now() - interval_of(since, "--since"), period_of(period, "--period")
        jobs = JobHistory(state, options_of(storage_options)).read(begin)
        return usage_lines(used(jobs, each, begin))

    print_lines(output, USAGE, _lines(state, storage_options, query))


def _lines(
    state: str, storage_options: str, query: Callable[[StreamCatalog], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the result of ``query`` on the catalog of a state folder.

    An error or a folder without a registry ends the command.
    """
    with plain_errors():
        catalog = StreamCatalog(state, storage_options=options_of(storage_options))
        return checked(catalog, query(catalog))


for _act in (create, alter, read, advance, rewind, drop):
    app.command()(_act)
