"""Verification: what proves that a target equals its source, and what a check reports.

Imports the model.
"""
