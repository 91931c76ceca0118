"""Crafts a Delta log that lists exactly the files and rows that a change set has to read.

Spark reads it like any table, so Delta itself handles deletion vectors, column mapping, partition
values and widened types. The log adds partition columns that the source does not have: the side of
the range that a file belongs to, the commit whose change it records, and the first row id and the
commit version of its own rows. Change files add one more column.

Data files keep the row ids and commit versions of carried rows in two columns, which are read as
ordinary columns. If a query asks Delta for both, Delta builds a struct of all its file metadata for
each row. If columns are found by field ids, only Delta can find these two.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from typing import Any

from pyroaring import BitMap64

from ..delta.deletion_vectors import Bitmap, VectorFiles
from ..delta.log_actions import ROW_ID_SETTING, ROW_VERSION_SETTING, DataFile, DeletionVector
from ..delta.table_schema import FIELD_ID, MAPPING_MODE, MAX_COLUMN_ID, PHYSICAL_NAME, Layout
from ..folders.file_options import WHOLE_FILES

SIDE_COLUMN = "_cdc_side"
VERSION_COLUMN = "_cdc_version"
REMOVAL_COLUMN = "_cdc_removal"
BASE_ROW_ID_COLUMN = "_cdc_base_row_id"
DEFAULT_VERSION_COLUMN = "_cdc_default_version"
CHANGE_TYPE_COLUMN = "_change_type"
# Not in the log: the first row id of a file plus the position of a row. No two places are equal.
ROW_PLACE_COLUMN = "_cdc_row_place"

_PARTITION_COLUMNS = {
    SIDE_COLUMN: "string",
    VERSION_COLUMN: "long",
    REMOVAL_COLUMN: "long",
    BASE_ROW_ID_COLUMN: "long",
    DEFAULT_VERSION_COLUMN: "long",
}
_UNUSED = "_cdc_unused"
_encode = json.JSONEncoder(separators=(",", ":")).encode
# Features about how a table is written or kept, not about how its files are read.
_NOT_FOR_READING = frozenset(
    {"v2Checkpoint", "vacuumProtocolCheck", "catalogManaged", "catalogOwned-preview"}
)


class Side(StrEnum):
    """What the rows of a file represent.

    ``OLD`` and ``NEW``: the state before and after the range, or before and after one commit.
    ``BOTH``: the state after one commit and before a later one. ``INSERTED``: only the file's own
    rows count, not those that were carried over. ``CHANGES``: each row holds its kind of change.
    """

    OLD = "old"
    NEW = "new"
    BOTH = "both"
    INSERTED = "inserted"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file of a crafted log. Its path and that of its deletion vector are absolute.

    ``version`` is the commit whose change the file records, if that matters. With ``Side.BOTH`` it
    is the commit that added the file, and ``removal`` is the one that removed it. ``kept`` holds
    the positions of the rows to read, if not all are read. Then the file has no deletion vector,
    and ``left_out`` holds all its other rows. If the kept rows record the changes of several
    ``commits``, these are their versions, each with the positions of its rows.
    """

    side: Side
    file: DataFile
    version: int | None = None
    kept: BitMap64 | None = None
    left_out: Bitmap | None = None
    commits: tuple[tuple[int, BitMap64], ...] = ()
    removal: int | None = None

    @property
    def has_vector(self) -> bool:
        """Whether some rows of the file are left out."""
        return self.left_out is not None or self.file.deletion_vector is not None


def crafted_log(
    layout: Layout,
    protocol: Mapping[str, Any],
    files: Sequence[ListedFile],
    table_id: str,
    vectors: VectorFiles,
    *,
    has_change_files: bool = False,
) -> bytes:
    """The content of the only commit of a crafted log.

    :param layout: how the files are read
    :param protocol: the source's protocol action; the log keeps its reader features
    :param table_id: an id for the crafted table
    :param vectors: takes the deletion vectors that are too large for the log
    :param has_change_files: some files are change files, whose rows hold their kind of change
    """
    written = BytesIO()
    written.write(_line({"protocol": _protocol(layout, protocol, files)}))
    written.write(_line({"metaData": _metadata(layout, table_id, has_change_files)}))
    # A change set may have a million files: there is one action at a time.
    for listed in files:
        written.write(_line({"add": _add(listed, vectors)}))
    return written.getvalue()


def _line(action: Mapping[str, Any]) -> bytes:
    return f"{_encode(action)}\n".encode()


def own_columns(layout: Layout) -> tuple[str, str] | None:
    """The columns of data files that keep the row ids and the commit versions of carried rows.

    ``None`` if only Delta can find them.
    """
    row_id = layout.configuration.get(ROW_ID_SETTING)
    row_version = layout.configuration.get(ROW_VERSION_SETTING)
    if layout.mapping_mode == "id" or row_id is None or row_version is None:
        return None
    return row_id, row_version


def added_columns(layout: Layout) -> tuple[str, ...]:
    """The columns that every crafted log adds to those of ``layout``."""
    return (*_PARTITION_COLUMNS, *(own_columns(layout) or ()))


def bytes_of(files: Iterable[ListedFile]) -> int:
    """The bytes of all ``files``."""
    return sum(listed.file.size_bytes for listed in files)


def in_log(listed: ListedFile) -> tuple[str, DeletionVector | None, Bitmap | None]:
    """The key of a file in a log: a log holds each file with its deletion vector only once."""
    return listed.file.path, listed.file.deletion_vector, listed.left_out


def batches_by_path(
    files: Sequence[ListedFile], key_of: Callable[[ListedFile], Hashable] = in_log
) -> list[list[ListedFile]]:
    """Split ``files`` into as few lists as possible, so that no list has two files with one key."""
    found: list[list[ListedFile]] = []
    seen: Counter[Hashable] = Counter()
    for listed in files:
        key = key_of(listed)
        if seen[key] == len(found):
            found.append([])
        found[seen[key]].append(listed)
        seen[key] += 1
    return found


def _protocol(
    layout: Layout, source: Mapping[str, Any], files: Sequence[ListedFile]
) -> dict[str, Any]:
    features = set(source.get("readerFeatures") or ()) - _NOT_FOR_READING - {"deletionVectors"}
    if any(listed.has_vector for listed in files):
        # It is set only if needed, because for each query Delta lists all files of a table that may
        # have deletion vectors.
        features.add("deletionVectors")
    if layout.is_mapped:
        features.add("columnMapping")
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted(features),
        "writerFeatures": sorted({*features, "rowTracking", "domainMetadata"}),
    }


def _metadata(layout: Layout, table_id: str, has_change_files: bool) -> dict[str, Any]:
    own = own_columns(layout)
    added = _PARTITION_COLUMNS | dict.fromkeys(own or (), "long")
    if has_change_files:
        added |= {CHANGE_TYPE_COLUMN: "string"}
    # Without row tracking Delta does not return the position of a row.
    settings = {"delta.enableRowTracking": "true"}
    for setting in (ROW_ID_SETTING, ROW_VERSION_SETTING):
        unused = f"{_UNUSED}.{setting}"
        settings[setting] = unused if own else layout.configuration.get(setting, unused)
    if layout.is_mapped:
        settings[MAPPING_MODE] = layout.mapping_mode
        settings[MAX_COLUMN_ID] = str(layout.max_column_id + len(added))
    extra = [
        _extra_field(layout, name, kind, number)
        for number, (name, kind) in enumerate(added.items(), 1)
    ]
    return {
        "id": table_id,
        "format": {"provider": "parquet", "options": WHOLE_FILES},
        "schemaString": json.dumps({"type": "struct", "fields": [*layout.fields, *extra]}),
        "partitionColumns": [*layout.partition_columns, *_PARTITION_COLUMNS],
        "configuration": settings,
    }


def _extra_field(layout: Layout, name: str, kind: str, number: int) -> dict[str, Any]:
    mapping = {FIELD_ID: layout.max_column_id + number, PHYSICAL_NAME: name}
    return {
        "name": name,
        "type": kind,
        "nullable": True,
        "metadata": mapping if layout.is_mapped else {},
    }


def _add(listed: ListedFile, vectors: VectorFiles) -> dict[str, Any]:
    file = listed.file
    action: dict[str, Any] = {
        "path": file.path,
        "partitionValues": {
            **file.partition_values,
            SIDE_COLUMN: listed.side.value,
            VERSION_COLUMN: _text(listed.version),
            REMOVAL_COLUMN: _text(listed.removal),
            BASE_ROW_ID_COLUMN: _text(file.base_row_id),
            DEFAULT_VERSION_COLUMN: _text(file.default_row_commit_version),
        },
        "size": file.size_bytes,
        "modificationTime": 0,
        "dataChange": True,
        "baseRowId": file.base_row_id,
        "defaultRowCommitVersion": file.default_row_commit_version,
    }
    if file.stats:
        action["stats"] = file.stats
    if listed.left_out is not None:
        action["deletionVector"] = vectors.vector(listed.left_out).as_action()
    elif file.deletion_vector is not None:
        action["deletionVector"] = vectors.readable(file.deletion_vector).as_action()
    return action


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
