"""The Spark session: its releases, settings, failures and refusals.

Imports the core.
"""
