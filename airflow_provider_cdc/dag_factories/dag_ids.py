"""The ids of the DAGs of a connection, and the actions that have a DAG."""

from __future__ import annotations

import re
from enum import StrEnum
from hashlib import sha256

from airflow_provider_cdc.hooks import DEFAULT_CONN_ID

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def dag_id_of(name: str, conn_id: str) -> str:
    """Return ``name``, followed by the id of the connection if it is not ``cdc_default``.

    So the DAGs of two connections have different ids, even if the name of a table follows after a
    dot.
    """
    if conn_id == DEFAULT_CONN_ID:
        return name
    label = readable(conn_id).replace(".", "_")
    # A changed id may equal the id of another connection.
    end = "" if label == conn_id else f"-{digest_of(conn_id)}"
    return f"{name}-{label}{end}"


class StreamAction(StrEnum):
    """What an operator can do to a stream by hand."""

    ADVANCE = "advance"
    REWIND = "rewind"
    ABORT = "abort"
    RECOVER = "recover"
    MAINTAIN = "maintain"


def action_dag_id(action: StreamAction, conn_id: str) -> str:
    """Return the id of the DAG that does ``action`` to a stream of a connection."""
    return f"{dag_id_of('stream_actions', conn_id)}.{action.value}"


def digest_of(name: str) -> str:
    """Return eight characters that distinguish ``name`` from similar names."""
    return sha256(name.encode()).hexdigest()[:8]


def readable(name: str) -> str:
    """Return ``name`` with only the characters that the id of a DAG may have."""
    return _UNFIT.sub("_", name).strip("_.")
