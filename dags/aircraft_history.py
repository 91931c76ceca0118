"""Keep which carrier flew each aircraft from when to when, by the times of its flights.

The Variable ``flights_warehouse`` names the folder of the tables. The stream ``aircraft_feed``
returns every change of the table of flights. Each run takes the next commits. Flights do not come
in the order of their times, and each comes several times: the history is the same in any case. The
demo triggers the runs; use a schedule such as ``*/5 * * * *``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from flights_demo.tables import Warehouse
from flights_demo.targets import AIRCRAFT_FEED, AIRCRAFT_SEQUENCE, OPERATORS_OF_AIRCRAFT

from airflow_provider_cdc.operators.history import ApplyChanges

WAREHOUSE = Warehouse("{{ var.value.flights_warehouse }}")

with DAG(
    "aircraft_history",
    schedule=None,
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    catchup=False,
    default_args={
        "retries": 5,
        "retry_delay": timedelta(seconds=20),
        "pool": "cdc_background",
    },
    doc_md=__doc__,
):
    ApplyChanges(
        task_id="apply",
        stream=AIRCRAFT_FEED,
        query=OPERATORS_OF_AIRCRAFT,
        target=WAREHOUSE.aircraft_history,
        keys="tailnum",
        scd_type=2,
        sequence_by=AIRCRAFT_SEQUENCE,
        column_list="carrier",
        max_commits=60,
    )
