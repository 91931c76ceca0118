"""Consumes streams exactly once: plans, applies, commits, and ends what a driver left open.

Imports reading, tables and storage.
"""
