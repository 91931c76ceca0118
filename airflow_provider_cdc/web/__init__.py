"""The page of streams in Airflow's UI: an application that the API server mounts at ``/cdc``."""
