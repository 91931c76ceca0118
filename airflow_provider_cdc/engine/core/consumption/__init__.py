"""The statements of a consumption that a target already holds, and how much a consumption takes.

Imports delta and the model of the core.
"""
