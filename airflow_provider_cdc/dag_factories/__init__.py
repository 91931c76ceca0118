"""Functions that return the DAGs of a connection: monitor, maintenance and background applies."""
