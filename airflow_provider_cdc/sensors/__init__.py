"""Sensors that wait for a stream."""
