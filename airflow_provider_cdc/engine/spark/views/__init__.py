"""Streams on views: what a view is made of, and how its rows change with its tables."""
