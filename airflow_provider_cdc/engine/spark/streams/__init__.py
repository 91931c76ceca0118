"""Creates, rewinds and maintains streams.

Imports reading, views and tables.
"""
