"""The registry: every stream of a state folder, and the transitions of its consumptions.

Imports the core and files.
"""
