"""The protocol of a consumption: plans, applies, commits, and ends what was left open.

Imports the core and storage. Another room implements the ports: today Spark.
"""
