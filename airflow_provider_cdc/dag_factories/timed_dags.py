"""What the DAGs that run on a timer for a connection have in common."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG

_START = datetime(2026, 1, 1, tzinfo=UTC)


def timed_dag(
    dag_id: str,
    every: timedelta,
    *,
    tags: tuple[str, ...] = (),
    description: str | None = None,
    display_name: str | None = None,
    default_args: Mapping[str, Any] | None = None,
) -> DAG:
    """A DAG that runs ``every`` so often, one run at a time, and does not make up for runs that
    were missed: the next one does their work too.

    :param tags: more than ``cdc``
    :param display_name: what Airflow's pages call it; by default its id
    """
    return DAG(
        dag_id,
        schedule=every,
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        # One that waits for somebody to switch it on lets streams go stale without a word.
        is_paused_upon_creation=False,
        default_args=dict(default_args or {}),
        tags=["cdc", *tags],
        description=description,
        dag_display_name=display_name or dag_id,
    )
