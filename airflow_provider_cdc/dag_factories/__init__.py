"""DAGs that look after streams, made for a connection."""
