"""Upsert tables (BigQuery CDC): what they are, and the SQL that applies changes to them."""
