"""Hooks: they connect a task to the stream registry and to Spark."""

DEFAULT_CONN_ID = "cdc_default"
"""The default connection of type ``cdc``."""
