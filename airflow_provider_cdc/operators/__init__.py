"""Operators of streams, changes and upsert tables."""
