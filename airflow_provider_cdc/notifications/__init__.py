"""Notifiers for the alerts of streams."""
