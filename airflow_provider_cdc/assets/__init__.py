"""Streams and their consumptions as Airflow assets."""
