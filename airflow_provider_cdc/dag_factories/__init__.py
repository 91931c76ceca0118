"""DAGs that monitor and maintain streams, made for a connection."""
