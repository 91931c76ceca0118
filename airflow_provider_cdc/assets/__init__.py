"""Streams and their consumptions as Airflow's assets."""
