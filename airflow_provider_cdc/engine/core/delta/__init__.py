"""What a Delta log says: actions, schemas, layouts, deletion vectors, row ids.

Imports the model of the core. Decides; reads no file.
"""
