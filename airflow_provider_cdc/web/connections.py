"""Which connections of type ``cdc`` there are, as far as the API server can list them."""

from __future__ import annotations

import os

from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_cdc.hooks import DEFAULT_CONN_ID
from airflow_provider_cdc.hooks.connection import CdcConnection

_TYPE = "cdc"
_ENVIRONMENT = "AIRFLOW_CONN_"


def cdc_connections() -> list[str]:
    """The ids of connections of type ``cdc``, sorted, the default one first.

    Airflow cannot list the connections of a secrets backend. Of these, only the default one is
    found.
    """
    with create_session() as session:
        stored = session.scalars(select(Connection.conn_id).where(Connection.conn_type == _TYPE))
        found = {str(conn_id) for conn_id in stored}
    names = (name for name in os.environ if name.startswith(_ENVIRONMENT))
    candidates = {name.removeprefix(_ENVIRONMENT).lower() for name in names} | {DEFAULT_CONN_ID}
    found |= {each for each in candidates - found if _find(each) is not None}
    return sorted(found, key=lambda conn_id: (conn_id != DEFAULT_CONN_ID, conn_id))


def settings_of(conn_id: str) -> CdcConnection | None:
    """The settings of a connection of type ``cdc``. ``None``: there is no such connection.

    :raises InvalidRequest: the connection is incomplete or malformed
    """
    found = _find(conn_id)
    return None if found is None else CdcConnection.from_extra(conn_id, found.extra_dejson)


def _find(conn_id: str) -> Connection | None:
    try:
        found = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return None
    return found if found.conn_type == _TYPE else None
