"""How the DAGs of a connection are called."""

from __future__ import annotations

import re

from airflow_provider_cdc.hooks import DEFAULT_CONN_ID

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def dag_id_of(name: str, conn_id: str) -> str:
    """``name``, and for a connection other than ``cdc_default`` its id behind it: the DAGs of two
    connections are two.
    """
    return name if conn_id == DEFAULT_CONN_ID else f"{name}.{readable(conn_id)}"


def readable(name: str) -> str:
    """``name`` in the characters that the id of a DAG may have."""
    return _UNFIT.sub("_", name).strip("_.")
