"""Triggers that wait for a stream without occupying a worker."""
