"""Hooks: the way from a task to the stream registry and to Spark."""
