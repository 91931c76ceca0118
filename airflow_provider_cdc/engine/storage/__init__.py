"""The only place of the engine that opens files and logs."""
