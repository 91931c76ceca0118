"""The registry: every stream of a state folder, and the moves of its consumptions.

Imports the core and files.
"""
