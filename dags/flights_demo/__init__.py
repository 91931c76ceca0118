"""The Spark jobs around the flights demo: tables, replay and comparison."""
