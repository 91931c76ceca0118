"""Hooks: the way from a task to the stream registry and to Spark."""

DEFAULT_CONN_ID = "cdc_default"
"""The connection of type ``cdc`` where none is named."""
