"""The jobs that Airflow submits to Spark: one dataclass each, one entry point for all."""
