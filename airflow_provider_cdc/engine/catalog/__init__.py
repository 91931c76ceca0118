"""Streams and upsert tables without Spark: their status, and alerts about them.

Imports the core and storage.
"""
