"""The only package of the engine that opens files and logs."""
