"""Streams on views: the parts of a view, and how its rows change with its tables.

Imports change sets and tables.
"""
