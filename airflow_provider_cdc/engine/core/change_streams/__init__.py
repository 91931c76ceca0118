"""Change streams: the partitions of the key space, and the tokens that name them.

Imports nothing of the core except its errors.
"""
