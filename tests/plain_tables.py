"""Rows of plain Delta tables, read in milliseconds by a reader other than Spark."""

from __future__ import annotations

from typing import Any

from deltalake import DeltaTable
from deltalake.schema import PrimitiveType

# Values of these types are the same Python objects in each reader.
PLAIN_TYPES = {"integer", "long", "short", "byte", "string", "double", "boolean", "date"}


def read_plain_rows(location: str) -> list[tuple[Any, ...]] | None:
    """The rows of a table at a path, or ``None`` if only Spark reads them as Spark does."""
    table = DeltaTable(location)
    if table.protocol().min_reader_version > 1:
        return None
    fields = table.schema().fields
    if not all(isinstance(f.type, PrimitiveType) and f.type.type in PLAIN_TYPES for f in fields):
        return None
    if any(":" in path for path in table.get_add_actions()["path"].to_pylist()):
        return None  # A clone has absolute paths for its source's files.
    columns = table.to_pyarrow_table().to_pydict()
    return list(zip(*(columns[field.name] for field in fields), strict=True))
