"""Archiving: filling archives with the changes of their sources, and the engine's calls for it.

Imports archives, consumption and streams.
"""
