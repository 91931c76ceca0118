"""Operators that create, consume, advance and drop streams."""
