"""The DAGs that apply the changes of upsert tables in the background."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_cdc.engine.catalog.upsert_jobs import DEFAULT_INTERVAL
from airflow_provider_cdc.engine.core.arguments.intervals import interval_of, period_of
from airflow_provider_cdc.engine.core.upserts.apply_schedule import ApplySchedule
from airflow_provider_cdc.hooks import DEFAULT_CONN_ID
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.operators.upserts import ApplyUpserts

from .apply_plan import KEPT_FOR, apply_plan
from .dag_ids import dag_id_of, digest_of, readable
from .timed_dags import timed_dag

POOL = "cdc_background"
"""The Airflow pool for applies in the background."""

_PREFIX = "apply_upserts"
_LONGEST = 200


def background_apply_dags(
    conn_id: str = CdcHook.default_conn_name,
    *,
    pool: str = POOL,
    default_interval: timedelta | str = DEFAULT_INTERVAL,
    refresh: timedelta | str = KEPT_FOR,
    default_args: Mapping[str, Any] | None = None,
) -> dict[str, DAG]:
    """Return a DAG for each upsert table of ``conn_id``. It applies waiting changes often enough to
    meet the table's ``max_staleness``. In a DAG file, write
    ``globals().update(background_apply_dags())``.

    BigQuery: changes are applied in the background at least once per ``max_staleness``. The time
    between the begins of two runs is ``max_staleness`` minus the 95th percentile of the durations
    of recent applies. A duration is measured from the time when an apply was due. When the file is
    parsed again, its DAGs follow new tables, dropped tables and a changed ``max_staleness``.

    The parse does not start Spark. It reads the registry of streams at most once per ``refresh``.

    :param pool: the pool that limits how many applies run at once; create it with ``airflow pools
        set``. The field ``pool_conf`` of the connection can give its jobs different Spark settings
    :param default_interval: how often to apply if a table has no ``max_staleness``
    :param refresh: how long an answer of the registry is reused
    :param default_args: the ``default_args`` of each DAG, for example ``on_failure_callback``
    :returns: the DAGs by their ids: ``apply_upserts.<table>``, and for a connection other than
        ``cdc_default`` ``apply_upserts-<conn_id>.<table>``
    :raises AirflowNotFoundException: there is no such connection
    """
    plan = apply_plan(
        conn_id,
        period_of(default_interval, "default_interval"),
        interval_of(refresh, "refresh"),
    )
    taken = Counter(readable(schedule.table) for schedule in plan)
    prefix = dag_id_of(_PREFIX, conn_id)
    shown = Counter(_last_part(each.table) for each in plan)
    dags = (
        _dag(
            f"{prefix}.{_name_of(each, taken)}",
            _display_name(each, shown, conn_id),
            each,
            conn_id,
            pool,
            default_args,
        )
        for each in plan
    )
    return {dag.dag_id: dag for dag in dags}


def _dag(
    dag_id: str,
    display_name: str,
    schedule: ApplySchedule,
    conn_id: str,
    pool: str,
    default_args: Mapping[str, Any] | None,
) -> DAG:
    description = f"Apply the waiting changes of {schedule.table}"
    with timed_dag(
        dag_id,
        schedule.every,
        tags=("upserts",),
        description=description,
        display_name=display_name,
        default_args=default_args,
    ) as dag:
        # No retries: the next run does the work that this run could not do.
        ApplyUpserts(
            task_id="apply",
            table=schedule.location,
            record_duration=True,
            conn_id=conn_id,
            pool=pool,
            retries=0,
        )
    return dag


def _display_name(schedule: ApplySchedule, shown: Mapping[str, int], conn_id: str) -> str:
    """The name of the DAG on Airflow's pages. It has the table without its folder, if no other
    table has that name.
    """
    last = _last_part(schedule.table)
    name = last if shown[last] == 1 else schedule.table
    of = "" if conn_id == DEFAULT_CONN_ID else f" of {conn_id}"
    return f"Apply upserts to {name}{of}"


def _last_part(table: str) -> str:
    """The name of a table; for a table at a path, the name of its folder."""
    return table.rstrip("/").rpartition("/")[2]


def _name_of(schedule: ApplySchedule, taken: Mapping[str, int]) -> str:
    """The name of the table, with a hash of its stream if the name does not identify the table."""
    name = readable(schedule.table)
    if name != schedule.table or taken[name] > 1 or len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}.{digest_of(schedule.stream)}"
    return name
