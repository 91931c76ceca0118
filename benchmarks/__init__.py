"""Benchmarks: reading changes, beside every peer, as ratios from one run."""
