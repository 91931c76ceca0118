"""Which files Spark can read as plain Parquet, with no Delta log around them.

Opening a crafted log costs Delta some five small Spark jobs, however little it lists. Few files of
a simple table need nothing of Delta to be read right: their rows are those at certain positions,
and what the log says of each file is looked up by its size or its name.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

from .crafted_log import ListedFile, bytes_of, own_columns
from .table_schema import Layout

# Spark lists more than that in a job with a task for each.
LISTED_AT_ONCE = 32
MOST_FILES = 4 * LISTED_AT_ONCE
# Spark lists files one after the other, which costs an object store some requests each.
MOST_REMOTE_FILES = 8
# Above it, looking up what the log says for each row costs more than a crafted log.
MOST_BYTES = 1 << 30
# Positions travel inside the plan, as words of bits.
BITS_IN_A_WORD = 64
MOST_WORDS = 1 << 18
_MOST_SLOTS = 1 << 16
_KEY_BITS = 32

# Features that leave the meaning of a data file's columns as Parquet has it.
_PLAIN_FEATURES = frozenset(
    {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "catalogManaged"}
)
_PLAIN_TYPES = re.compile(
    r"boolean|byte|short|integer|long|float|double|string|binary|date|timestamp|timestamp_ntz"
    r"|decimal\(\d+,\d+\)"
)
_PARTITION_TYPES = re.compile(r"boolean|byte|short|integer|long|string|date|decimal\(\d+,\d+\)")
# Nothing that a URI, a glob or Hadoop would read as something else; no hidden file.
_PLAIN_PATH = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9_\-./=@:]*/[A-Za-z0-9][A-Za-z0-9_\-.=]*"
)


def reads_as_plain(
    layout: Layout, protocol: Mapping[str, Any], listed: Sequence[ListedFile]
) -> bool:
    """Whether the ``listed`` files can be read as plain Parquet, and it pays.

    :param layout: how the files are read
    :param protocol: the source's protocol action
    """
    features = set(protocol.get("readerFeatures") or ())
    names = [name.casefold() for name in layout.column_names]
    files = {item.file.path: file_name(item) for item in listed}
    are_local = all(path.startswith("file:") for path in files)
    return (
        0 < len(set(files.values())) == len(files)
        and len(files) <= (MOST_FILES if are_local else MOST_REMOTE_FILES)
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


def file_name(item: ListedFile) -> str:
    """The last part of a listed file's path, by which its rows are told from those of others."""
    return item.file.path.rpartition("/")[2]


def path_key(uri: str) -> str:
    """``uri`` in the one form that Spark and a Delta log both lead to."""
    return re.sub("^file:/+", "/", uri)


@dataclass(frozen=True, slots=True)
class Slots:
    """Numbers of files by a key that each has: ``numbers[(key >> shift) % len(numbers)]``.

    The length of ``numbers`` is a power of two; no two keys share a place.
    """

    shift: int
    numbers: tuple[int, ...]


def slots(keys: Sequence[int]) -> Slots | None:
    """Slots for keys, numbered as they come; ``None`` where too many would be needed."""
    size = 1
    while size <= _MOST_SLOTS:
        for shift in range(_KEY_BITS - size.bit_length() + 1):
            places = {(key >> shift) % size: number for number, key in enumerate(keys)}
            if len(places) == len(keys):
                return Slots(shift, tuple(places.get(place, 0) for place in range(size)))
        size *= 2
    return None


def name_key(item: ListedFile) -> int:
    """A key of a listed file that Spark can tell from its name."""
    return zlib.crc32(file_name(item).encode("ascii"))


def words(positions: BitMap64) -> list[int]:
    """``positions`` as the set bits of signed words, as few of them as hold the last one."""
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
    """How many words the positions may need that are kept of a file, or left out."""
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
