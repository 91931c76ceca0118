"""Reads the changes of any source: a table, a view or a folder of files.

Imports change sets, views and tables.
"""
