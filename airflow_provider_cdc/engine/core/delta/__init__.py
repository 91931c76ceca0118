"""What a Delta log says: actions, schemas, layouts, deletion vectors, row ids.

Imports the model of the core. Makes decisions, and reads no file.
"""
