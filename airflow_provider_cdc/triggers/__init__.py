"""Triggers that wait for a stream without holding a worker."""
