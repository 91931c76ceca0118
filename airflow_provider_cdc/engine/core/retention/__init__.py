"""How long a table keeps what its streams need, and when a stream goes stale.

Imports arguments of the core.
"""
