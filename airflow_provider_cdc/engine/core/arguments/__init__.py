"""Arguments of public methods: they are checked and parsed before anything else happens.

Imports errors, names and texts of the core.
"""
