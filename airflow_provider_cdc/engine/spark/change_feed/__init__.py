"""The change feed: every change of every commit of a range, read in one scan.

Imports change sets, the session and storage.
"""
