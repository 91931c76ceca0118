"""Keep every change of the table of flights for good, and check what was made of them.

The Variable ``flights_warehouse`` names the folder of the tables. Each run archives the changes
since the last one, and checks that the archive and the copy of the table equal the table. A check
reads only what changed since the one before. The demo triggers the runs; use a schedule such as
``@hourly``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from flights_demo.tables import Warehouse

from airflow_provider_cdc.operators.archives import ArchiveChanges
from airflow_provider_cdc.operators.verification import VerifyTarget

WAREHOUSE = Warehouse("{{ var.value.flights_warehouse }}")

with DAG(
    "flights_archive",
    schedule=None,
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    catchup=False,
    # A check has to wait until a consumption of its stream has ended.
    default_args={
        "retries": 5,
        "retry_delay": timedelta(seconds=20),
        "pool": "cdc_background",
    },
    doc_md=__doc__,
):
    archive = ArchiveChanges(
        task_id="archive", table=WAREHOUSE.flights, archive=WAREHOUSE.flights_archive
    )
    check_archive = VerifyTarget(
        task_id="check_archive",
        stream="{{ ti.xcom_pull('archive')['stream'] }}",
        target=WAREHOUSE.flights_archive,
    )
    check_copy = VerifyTarget(
        task_id="check_current_flights",
        stream="flights_changes",
        target=WAREHOUSE.current_flights,
        key="flight_id",
    )
    archive >> check_archive >> check_copy
