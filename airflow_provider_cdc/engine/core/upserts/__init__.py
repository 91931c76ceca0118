"""Upsert tables (seed 004): what they are, and the SQL that applies changes to them."""
