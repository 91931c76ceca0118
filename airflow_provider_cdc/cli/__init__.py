"""Command lines: ``python -m airflow_provider_cdc`` and ``airflow cdc``."""
