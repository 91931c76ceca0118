"""Finds and clones Delta tables, and stores values in them as Delta's store assignment does.

Imports the session.
"""
