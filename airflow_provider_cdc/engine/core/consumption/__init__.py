"""Which statements of a consumption a target already holds, and how much one takes.

Imports delta and the model of the core.
"""
