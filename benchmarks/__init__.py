"""Benchmarks: reading changes, compared with every peer, as ratios from one run."""
