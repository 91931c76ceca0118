"""Keep two tables up to date with a table of flights, exactly once.

The Variable ``flights_warehouse`` names the folder of the tables. The connection ``cdc_default``
names the state folder and the Spark connection. Each run creates the stream if it does not exist,
waits for changes, and applies them to both tables in one consumption.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from flights_demo.tables import Warehouse
from flights_demo.targets import consumption

from airflow_provider_cdc.operators.stream import ConsumeStream, CreateStream
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor

STREAM = "flights_changes"
WAREHOUSE = Warehouse("{{ var.value.flights_warehouse }}")

with DAG(
    "flights_punctuality",
    schedule="@continuous",
    # Without a start date the second run would have the first one's logical date, and never start.
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    # Otherwise a lasting failure would be repeated at once, for ever.
    max_consecutive_failed_dag_runs=3,
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    doc_md=__doc__,
):
    create = CreateStream(
        task_id="create_stream", stream=STREAM, on_table=WAREHOUSE.flights, if_not_exists=True
    )
    wait = StreamHasDataSensor(
        task_id="wait_for_changes",
        stream=STREAM,
        deferrable=True,
        poke_interval=2,
        # A long wait without changes is no failure.
        timeout=timedelta(days=365),
    )
    consume = ConsumeStream(task_id="consume", stream=STREAM, sql=consumption(STREAM, WAREHOUSE))
    create >> wait >> consume
