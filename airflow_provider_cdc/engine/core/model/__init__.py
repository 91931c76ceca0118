"""The nouns of the engine: stream, offset, consumption, outcome, alert; and their text form.

Imports arguments and retention of the core.
"""
