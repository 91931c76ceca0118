"""What a state folder holds in addition to the registry: jobs, alerts, results, extensions.

Imports the core, files and the registry.
"""
