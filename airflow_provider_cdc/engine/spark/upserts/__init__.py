"""Upsert tables on Spark: made, written to, applied and read."""
