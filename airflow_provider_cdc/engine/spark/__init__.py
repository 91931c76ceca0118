"""The only part of the engine that imports pyspark: change sets, statements, consumption."""

from .session.installed import check_installed

# First of all: the modules below import names that older releases lack.
check_installed()
