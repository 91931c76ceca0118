"""Upsert tables on Spark: creates, writes, applies and reads them.

Imports consumption and tables.
"""
