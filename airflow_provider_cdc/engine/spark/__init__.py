"""The only place of the engine that imports pyspark: change sets, statements, consumption."""

from .installed import check_installed

# Before any module below asks an older release for what it has not.
check_installed()
