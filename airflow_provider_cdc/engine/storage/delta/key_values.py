"""Reads the keys of a few data files without a job of Spark."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from ...core.delta.log_actions import DataFile
from ..files.stores import Files
from ..files.uris import absolute_path, plain_uri

log = logging.getLogger(__name__)

# Reading more than this takes longer than a job of Spark.
_MOST_FILES = 8
_MOST_BYTES = 32 * 2**20
_BLOCK_BYTES = 2**20


def whole_numbers(
    location: str, files: Sequence[DataFile], column: str, reader: Files
) -> list[int] | None:
    """The values of ``column`` in ``files`` of the table at ``location``, once each and ascending.
    Values of deleted rows are among them.

    ``None``: Spark has to read them, because the files are too large, or do not have the column as
    whole numbers under its name.
    """
    if len(files) > _MOST_FILES or sum(file.size_bytes for file in files) > _MOST_BYTES:
        return None
    found: set[int] = set()
    for file in files:
        try:
            values = _distinct(plain_uri(absolute_path(location, file.path)), column, reader)
        except (OSError, pa.ArrowInvalid) as error:
            log.debug("Spark reads the keys in %s: %s", file.path, error)
            return None
        if values is None:
            return None
        found.update(values)
    return sorted(found)


def _distinct(uri: str, column: str, reader: Files) -> list[int] | None:
    with reader.opened(uri, _BLOCK_BYTES) as handle:
        file = pq.ParquetFile(handle)
        schema = file.schema_arrow
        if column not in schema.names or not pa.types.is_integer(schema.field(column).type):
            return None
        keys: list[int] = file.read(columns=[column])[column].drop_null().unique().to_pylist()
        return keys
