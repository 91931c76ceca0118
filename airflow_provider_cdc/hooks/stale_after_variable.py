"""Keep the ``stale_after`` of each stream in a Variable that Airflow's scheduler can read.

The scheduler must not read a store or a connection while it creates a run. So the monitor writes
the moments to an Airflow Variable, one for each connection. Only deadlines use these moments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.sdk import Variable

from airflow_provider_cdc.engine.core.names import stream_key


def variable_key(conn_id: str) -> str:
    """The name of the Variable with the moments of the streams of ``conn_id``."""
    return f"cdc_stale_after.{conn_id}"


def knows_streams(conn_id: str) -> bool:
    """Whether a monitor saw streams of ``conn_id`` at its last check."""
    return bool(_known(variable_key(conn_id)))


def write_stale_after(conn_id: str, moments: Mapping[str, datetime], *, is_whole: bool) -> None:
    """Write the moments at which the streams of ``conn_id`` go stale to the Variable.

    :param moments: ``stale_after`` by the name of the stream
    :param is_whole: whether ``moments`` has all streams. If it has, a missing stream was dropped;
        otherwise it may only be out of reach
    """
    key = variable_key(conn_id)
    known = _known(key)
    found = {stream_key(name): moment.isoformat() for name, moment in moments.items()}
    kept = found if is_whole else known | found
    if kept != known:
        Variable.set(key, kept, serialize_json=True)


def read_stale_after(value: str | None, stream: str) -> datetime | None:
    """Return when a stream goes stale, from the text of the Variable.

    ``None``: no monitor has written the Variable yet, it does not have the stream, or it holds
    something else.
    """
    try:
        moment = datetime.fromisoformat(json.loads(value or "{}")[stream_key(stream)])
    except (ValueError, TypeError, KeyError):
        return None
    return moment if moment.tzinfo is not None else None


def _known(key: str) -> dict[str, Any]:
    """The content of the Variable; empty if it holds something else."""
    try:
        found: Any = Variable.get(key, default={}, deserialize_json=True)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
