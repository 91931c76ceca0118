"""History targets on Spark: creates them, applies changes to them, and reads them.

Imports consumption and tables.
"""
