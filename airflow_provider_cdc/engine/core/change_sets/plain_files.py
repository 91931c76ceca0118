"""Which files Spark can read as plain Parquet, without a Delta log.

Opening a crafted log costs Delta about five small Spark jobs, even if it lists few files. Spark
reads the files of a simple table correctly without Delta. Positions identify the rows to read. The
number of a file in a list identifies what the log records of the file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from pyroaring import BitMap64

from ..delta.table_schema import Layout
from ..names import name_key
from .crafted_log import ListedFile, bytes_of, own_columns

# The plan carries what the log records of each file.
MOST_FILES = 10_000
# If there are more files, a filter may leave out many. It needs what a Delta log records of each.
MOST_PRUNED_FILES = 128
# Above this size, the lookup in the log's records for each row costs more than a crafted log.
MOST_BYTES = 1 << 30
# The plan carries positions as words of bits.
BITS_IN_A_WORD = 64
MOST_WORDS = 1 << 18

# Features that do not change the meaning of columns in Parquet files.
_PLAIN_FEATURES = frozenset(
    {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "catalogManaged"}
)
_PLAIN_TYPES = re.compile(
    r"boolean|byte|short|integer|long|float|double|string|binary|date|timestamp|timestamp_ntz"
    r"|decimal\(\d+,\d+\)"
)
_PARTITION_TYPES = re.compile(r"boolean|byte|short|integer|long|string|date|decimal\(\d+,\d+\)")
# Paths with only one spelling. Hidden files do not match, because Spark leaves them out.
_PLAIN_PATH = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9_\-./=@:]*/[A-Za-z0-9][A-Za-z0-9_\-.=]*"
)


def reads_as_plain(
    layout: Layout,
    protocol: Mapping[str, Any],
    listed: Sequence[ListedFile],
    *,
    can_be_pruned: bool = False,
) -> bool:
    """Whether the ``listed`` files can be read as plain Parquet, and whether that is cheaper.

    :param layout: how the files are read
    :param protocol: the source's protocol action
    :param can_be_pruned: a filter on the rows may reach the files
    """
    most_files = MOST_PRUNED_FILES if can_be_pruned else MOST_FILES
    features = set(protocol.get("readerFeatures") or ())
    names = [name_key(name) for name in layout.column_names]
    return (
        0 < len(listed) <= most_files
        and bytes_of(listed) <= MOST_BYTES
        and features <= _PLAIN_FEATURES
        and own_columns(layout) is not None
        and not layout.is_mapped
        and len(set(names)) == len(names)
        and all(_is_plain_field(field) for field in layout.fields)
        and all(
            _PARTITION_TYPES.fullmatch(str(field["type"]))
            for field in layout.fields
            if field["name"] in layout.partition_columns
        )
        and all(_is_plain_file(item) for item in listed)
        and sum(map(_most_words, listed)) <= MOST_WORDS
    )


def bitmap_words(positions: BitMap64) -> list[int]:
    """``positions`` as the set bits of signed words.

    There are only as many words as the last position needs.
    """
    if not positions:
        return []
    count = positions.max() // BITS_IN_A_WORD + 1
    found = bytearray(count * BITS_IN_A_WORD // 8)
    for position in positions:
        found[position // 8] |= 1 << (position % 8)
    return list(struct.unpack(f"<{count}q", found))


def _is_plain_file(item: ListedFile) -> bool:
    file = item.file
    return (
        _PLAIN_PATH.fullmatch(file.path) is not None
        and file.base_row_id is not None
        and file.default_row_commit_version is not None
    )


def _most_words(item: ListedFile) -> int:
    """How many words the positions of kept or left-out rows of a file may need."""
    if item.kept is not None:
        last = item.kept.max()
    elif item.file.deletion_vector is None:
        return 0
    elif item.file.record_count is None:
        return MOST_WORDS + 1
    else:
        last = item.file.record_count
    return int(last) // BITS_IN_A_WORD + 1


def _is_plain_field(field: Mapping[str, Any]) -> bool:
    return not field.get("metadata") and _is_plain_type(field["type"])


def _is_plain_type(kind: Any) -> bool:
    if isinstance(kind, str):
        return _PLAIN_TYPES.fullmatch(kind) is not None
    if kind["type"] == "struct":
        return all(_is_plain_field(field) for field in kind["fields"])
    if kind["type"] == "array":
        return _is_plain_type(kind["elementType"])
    if kind["type"] == "map":
        return _is_plain_type(kind["keyType"]) and _is_plain_type(kind["valueType"])
    return False
