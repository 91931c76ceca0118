"""Which files Spark can read as plain Parquet, with no Delta log around them.

Opening a crafted log costs Delta some five small Spark jobs, however little it lists. Few files of
a simple table need nothing of Delta to be read right: their rows are those at certain positions,
and what the log says of each file goes beside them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .crafted_log import ListedFile
from .log_actions import ROW_ID_SETTING, ROW_VERSION_SETTING
from .table_schema import Layout

# Spark lists more of them in a job of its own.
MOST_FILES = 32
# Positions travel inside the plan.
MOST_POSITIONS = 50_000
# Above it, what a crafted log costs is no longer seen, and it is read without a join.
MOST_BYTES = 256 << 20

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
    return (
        0 < len(set(files.values())) == len(files) <= MOST_FILES
        and sum(item.file.size_bytes for item in listed) <= MOST_BYTES
        and features <= _PLAIN_FEATURES
        and {ROW_ID_SETTING, ROW_VERSION_SETTING} <= set(layout.configuration)
        and not layout.is_mapped
        and len(set(names)) == len(names)
        and all(_is_plain_field(field) for field in layout.fields)
        and all(
            _PARTITION_TYPES.fullmatch(str(field["type"]))
            for field in layout.fields
            if field["name"] in layout.partition_columns
        )
        and all(_is_plain_file(item) for item in listed)
        and _has_plain_positions(listed)
    )


def file_name(item: ListedFile) -> str:
    """The last part of a listed file's path, by which its rows are told from those of others."""
    return item.file.path.rpartition("/")[2]


def path_key(uri: str) -> str:
    """``uri`` in the one form that Spark and a Delta log both lead to."""
    return re.sub("^file:/+", "/", uri)


def _is_plain_file(item: ListedFile) -> bool:
    file = item.file
    return (
        _PLAIN_PATH.fullmatch(file.path) is not None
        and file.base_row_id is not None
        and file.default_row_commit_version is not None
    )


def _has_plain_positions(listed: Sequence[ListedFile]) -> bool:
    """Whether the rows to read are few positions; what a vector leaves out counts for its file."""
    whole = [item.file for item in listed if item.kept is None]
    times = Counter(file.path for file in whole)
    vectors = [(file.path, file.deletion_vector) for file in whole if file.deletion_vector]
    named = sum(vector.cardinality for _, vector in vectors)
    named += sum(len(item.kept) for item in listed if item.kept is not None)
    return named <= MOST_POSITIONS and all(times[path] == 1 for path, _ in vectors)


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
