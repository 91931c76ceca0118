"""The only place of the engine that imports pyspark: change sets, statements, consumption."""
