"""Change sets: what a stream returns, minimal and exact, read in the cheapest way.

Imports the session and storage.
"""
