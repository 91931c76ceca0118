"""Archives as Delta tables: creating and altering them, and reading their changes.

Imports the change feed, change sets and tables.
"""
