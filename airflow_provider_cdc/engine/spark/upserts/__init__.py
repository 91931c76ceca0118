"""Upsert tables on Spark: creating, writing, applying and reading them."""
