"""Apply the changes of every upsert table of ``cdc_default`` in the background.

Each table has a DAG that runs as often as its ``max_staleness`` requires. The applies share the
slots of the pool ``cdc_background``, which this command makes:

``airflow pools set cdc_background 2 "Applies of upsert tables"``
"""

from __future__ import annotations

from airflow_provider_cdc.dag_factories.upserts import background_apply_dags

globals().update(background_apply_dags())
