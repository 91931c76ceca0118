"""Upsert tables (BigQuery CDC): what they are, and the SQL that applies changes to them.

Imports change sets, delta and arguments of the core.
"""
