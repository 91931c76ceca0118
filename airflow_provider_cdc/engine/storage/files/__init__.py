"""Files of any store, through fsspec: lists, reads and writes them.

Imports the core.
"""
