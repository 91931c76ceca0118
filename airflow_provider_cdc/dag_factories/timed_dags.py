"""The shared settings of the DAGs that run on a timer for a connection."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG

_START = datetime(2026, 1, 1, tzinfo=UTC)


def timed_dag(
    dag_id: str,
    schedule: Any,
    *,
    tags: tuple[str, ...] = (),
    description: str | None = None,
    display_name: str | None = None,
    default_args: Mapping[str, Any] | None = None,
) -> DAG:
    """Return a DAG that runs on ``schedule``, such as once per ``timedelta``, one run at a time.

    It does not run missed runs later, because the next run does their work too.

    :param schedule: as for ``DAG``
    :param tags: tags besides ``cdc``
    :param display_name: the name of the DAG on Airflow's pages; by default its id
    """
    return DAG(
        dag_id,
        schedule=schedule,
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        # A paused DAG would let streams go stale silently.
        is_paused_upon_creation=False,
        default_args=dict(default_args or {}),
        tags=["cdc", *tags],
        description=description,
        dag_display_name=display_name or dag_id,
    )
