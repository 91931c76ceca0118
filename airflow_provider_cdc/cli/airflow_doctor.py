"""What ``airflow cdc doctor`` checks: the connections first, then what ``doctor`` checks."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException
from airflow.utils.cli import suppress_logs_and_warning

from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.findings import Finding
from airflow_provider_cdc.jobs.model import CheckReach

from .airflow_acts import answer_of
from .airflow_settings import connection_settings
from .doctor import findings, on_this_machine


@suppress_logs_and_warning
def doctor(args: Namespace) -> None:
    """Print what was checked. The exit code is 0 if nothing is wrong, otherwise 1."""
    is_well = True
    for found in connection_findings(args.conn_id, runs_job=not args.no_job):
        print(found.line, flush=True)
        is_well &= found.fix is None
    raise SystemExit(0 if is_well else 1)


def connection_findings(conn_id: str, *, runs_job: bool) -> Iterator[Finding]:
    """Check a connection of type ``cdc`` and its Spark connection, this machine, and the state
    folder.

    :param runs_job: run a job on Spark, and check what its driver and executors reach
    """
    name = f"connection {conn_id}"
    try:
        settings = connection_settings(conn_id)
    except CdcError as error:
        yield Finding(name, error.problem, error.fix)
        yield from on_this_machine()
        return
    yield Finding(name, f"state folder {settings.state}")
    yield _spark(settings.spark_conn_id)
    yield from findings(settings.state, settings.store_options)
    if runs_job:
        yield from _of_job(conn_id)


def _of_job(conn_id: str) -> Iterator[Finding]:
    try:
        yield from answer_of(conn_id, CheckReach()).reached
    except (CdcError, AirflowException) as error:
        text, _, fix = str(error).partition(" Fix: ")
        yield Finding("job on Spark", text.rstrip("."), fix.rstrip(".") or "read its log")


def _spark(conn_id: str) -> Finding:
    name = f"connection {conn_id}"
    try:
        found = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return Finding(name, "does not exist", "create it, or correct spark_conn_id")
    return Finding(name, f"type {found.conn_type}, host {found.host}")
