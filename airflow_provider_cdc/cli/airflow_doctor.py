"""What ``airflow cdc doctor`` checks: the connections first, then what ``doctor`` checks."""

from __future__ import annotations

from collections.abc import Iterator

from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_cdc.engine.core.errors import CdcError

from .airflow_settings import connection_settings
from .doctor import Finding, findings, on_this_machine


def connection_findings(conn_id: str) -> Iterator[Finding]:
    """Check a connection of type ``cdc`` and its Spark connection, this machine, and the state
    folder.
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


def _spark(conn_id: str) -> Finding:
    name = f"connection {conn_id}"
    try:
        found = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return Finding(name, "does not exist", "create it, or correct spark_conn_id")
    return Finding(name, f"type {found.conn_type}, host {found.host}")
