"""Verification: proving that targets equal their sources, and healing those that do not.

Imports archives, consumption and reading.
"""
