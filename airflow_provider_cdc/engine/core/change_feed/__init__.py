"""The change feed: every change of every commit of a range, and where each commit recorded it.

Imports change sets and delta of the core.
"""
