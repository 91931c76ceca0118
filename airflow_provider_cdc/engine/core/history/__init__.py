"""History targets: the options of SCD type 1 and 2, and the SQL that makes intervals of events.

Imports delta and arguments of the core.
"""
