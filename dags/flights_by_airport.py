"""Read the changes of the table of flights by partition, with several readers at once.

The Variable ``flights_warehouse`` names the folder of the tables. The change stream
``flight_movements`` watches the flights of three airports. Each run captures what is new, and reads
each partition in a mapped task of its own, which adds its changes to one table exactly once. The
more changes a run captures, the more partitions the next one has. The demo triggers the runs; use a
schedule such as ``*/5 * * * *``.
"""

from __future__ import annotations

from datetime import timedelta

from flights_demo.tables import Warehouse
from flights_demo.targets import MOVEMENTS, add_movements

from airflow_provider_cdc.dag_factories.change_streams import change_stream_dag

WAREHOUSE = Warehouse("{{ var.value.flights_warehouse }}")

dag = change_stream_dag(
    "flights_by_airport",
    MOVEMENTS,
    schedule=None,
    sql=add_movements(WAREHOUSE),
    max_parallel=2,
    default_args={"retries": 5, "retry_delay": timedelta(seconds=20)},
)
dag.doc_md = __doc__
