"""What a state folder holds beside the registry: jobs, alerts, results, extensions.

Imports the core, files and the registry.
"""
