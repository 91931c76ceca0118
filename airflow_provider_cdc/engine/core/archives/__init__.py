"""Archives: what an archive of a table's change feed records, and how its columns follow the table.

Imports the change feed and the model.
"""
