"""Where a stream is in the history of its source, and what came since.

Imports the core, files, delta and the registry.
"""
