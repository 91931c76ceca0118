"""The jobs that Airflow submits to Spark: one class for each job, one entry point for all."""
