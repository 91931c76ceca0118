"""The DAGs of tests/connect/test_dags_over_connect.py: one for each upsert table that the test
makes.
"""

from __future__ import annotations

from datetime import timedelta

from airflow_provider_cdc.dag_factories.upserts import background_apply_dags

globals().update(background_apply_dags(refresh=timedelta(seconds=5)))
