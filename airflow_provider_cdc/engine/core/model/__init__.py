"""The objects of the engine: stream, offset, consumption, outcome and alert, and their text form.

Imports arguments and retention of the core.
"""
