"""Change data capture for Delta Lake tables: streams, offsets and exactly-once consumption."""

__version__ = "0.1.0"
