"""Reads Delta logs: versions, commits, snapshots, the files of a range.

Imports the core and files.
"""
