"""Delta tables by name or path: found, cloned, and assigned as Delta assigns.

Imports the session.
"""
