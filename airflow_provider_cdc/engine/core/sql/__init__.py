"""The SQL of users: what a statement does, and where it reads streams.

Imports the model of the core.
"""
