"""Which files hold the exact minimal change set of a range, and how to read them.

Imports delta, folders and consumption of the core.
"""
