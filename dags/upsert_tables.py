"""Apply the changes of every upsert table of ``cdc_default`` in the background.

One DAG for each table, as often as its ``max_staleness`` asks. The applies share the slots of the
pool ``cdc_background``: ``airflow pools set cdc_background 2 "Applies of upsert tables"``.
"""

from __future__ import annotations

from airflow_provider_cdc.dag_factories.upserts import background_apply_dags

globals().update(background_apply_dags())
