"""Hooks: how a task reaches the stream registry and Spark."""

DEFAULT_CONN_ID = "cdc_default"
"""The connection of type ``cdc`` if no other is named."""
