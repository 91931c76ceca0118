"""Where a stream is in the history of its source, and which commits came after that.

Imports the core, files, delta and the registry.
"""
