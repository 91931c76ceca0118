"""Displays of the progress of long work: a bar in a terminal or a notebook, or lines of the log."""
