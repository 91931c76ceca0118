"""Folders of files as sources: the log of a folder, options of readers, CSV headers.

Imports delta and arguments of the core.
"""
