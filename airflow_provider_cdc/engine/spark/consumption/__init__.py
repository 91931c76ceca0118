"""Consumes streams exactly once: plans, applies, commits, and ends consumptions left open.

Imports reading, tables and storage.
"""
