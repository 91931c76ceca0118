"""Arguments of public methods: checked, parsed and refused before anything happens.

Imports errors, names and texts of the core.
"""
