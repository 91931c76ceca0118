"""The command line of the package; see ``cli/terminal.py``."""

from airflow_provider_cdc.cli.terminal import app

app(prog_name="python -m airflow_provider_cdc")
