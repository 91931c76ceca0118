"""Deadlines of DAGs that consume streams."""
