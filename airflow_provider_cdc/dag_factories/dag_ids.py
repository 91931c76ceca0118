"""How the DAGs of a connection are called."""

from __future__ import annotations

import re
from hashlib import sha256

from airflow_provider_cdc.hooks import DEFAULT_CONN_ID

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def dag_id_of(name: str, conn_id: str) -> str:
    """``name``, and for a connection other than ``cdc_default`` its id behind it: the DAGs of two
    connections are two, whatever comes behind a dot.
    """
    if conn_id == DEFAULT_CONN_ID:
        return name
    told = readable(conn_id).replace(".", "_")
    # What is not readable, or has a dot, may read like the id of another one.
    end = "" if told == conn_id else f"-{digest_of(conn_id)}"
    return f"{name}-{told}{end}"


def digest_of(name: str) -> str:
    """Eight characters that tell ``name`` from others which read alike."""
    return sha256(name.encode()).hexdigest()[:8]


def readable(name: str) -> str:
    """``name`` in the characters that the id of a DAG may have."""
    return _UNFIT.sub("_", name).strip("_.")
