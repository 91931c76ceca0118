"""Pure decisions of the engine: no Spark, no clock, no files."""
