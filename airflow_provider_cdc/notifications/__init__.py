"""Notifiers that tell of streams."""
