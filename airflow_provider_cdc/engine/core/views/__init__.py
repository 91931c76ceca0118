"""The query of a view as relations over tables, and which queries streams support.

Imports sql of the core.
"""
