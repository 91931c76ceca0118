"""A Delta log of our own that lists exactly the files and rows that a change set has to read.

Spark reads it like any table, so deletion vectors, column mapping, partition values and widened
types stay Delta's own work. Columns that the source does not have are added as partition columns:
which side of the range a file belongs to, the commit whose change it tells, and the first row id
and the commit version that its own rows were given. Change files bring one more of their own.

What data files keep of carried rows is read as two ordinary columns: Delta would make a struct of
all that it knows of a file for each row that asks for both of them. Where columns are found by
field ids, only Delta can find these two.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pyroaring import BitMap64

from .deletion_vectors import Bitmap, VectorFiles
from .file_options import WHOLE_FILES
from .log_actions import ROW_ID_SETTING, ROW_VERSION_SETTING, DataFile, DeletionVector
from .table_schema import FIELD_ID, MAPPING_MODE, MAX_COLUMN_ID, PHYSICAL_NAME, Layout

SIDE_COLUMN = "_cdc_side"
VERSION_COLUMN = "_cdc_version"
BASE_ROW_ID_COLUMN = "_cdc_base_row_id"
DEFAULT_VERSION_COLUMN = "_cdc_default_version"
CHANGE_TYPE_COLUMN = "_change_type"

_PARTITION_COLUMNS = {
    SIDE_COLUMN: "string",
    VERSION_COLUMN: "long",
    BASE_ROW_ID_COLUMN: "long",
    DEFAULT_VERSION_COLUMN: "long",
}
_UNUSED = "_cdc_unused"
# Features that say how a table is written or kept, not how its files are read.
_NOT_FOR_READING = frozenset(
    {"v2Checkpoint", "vacuumProtocolCheck", "catalogManaged", "catalogOwned-preview"}
)


class Side(StrEnum):
    """What the rows of a file stand for: what was before or is after, the range or one commit.

    In inserted files only their own rows count, those that were not carried over; in change files
    each row says itself what it is.
    """

    OLD = "old"
    NEW = "new"
    INSERTED = "inserted"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file of a crafted log; its path and that of its vector are absolute already.

    ``version`` is the commit whose change it tells, where that matters. ``kept`` are the positions
    of the only rows to read, where not all are: then the file has no vector, and ``left_out`` are
    all its other rows.
    """

    side: Side
    file: DataFile
    version: int | None = None
    kept: BitMap64 | None = None
    left_out: Bitmap | None = None

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
    :param protocol: the source's protocol action, of which the reader features are kept
    :param table_id: an id for the crafted table
    :param vectors: takes the vectors that are too large for the log
    :param has_change_files: some of the files are change files, whose rows say what they are
    """
    actions: list[dict[str, Any]] = [
        {"protocol": _protocol(layout, protocol, files)},
        {"metaData": _metadata(layout, table_id, has_change_files)},
    ]
    actions.extend({"add": _add(listed, vectors)} for listed in files)
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()


def own_columns(layout: Layout) -> tuple[str, str] | None:
    """The columns in which data files keep the row ids and the commit versions of carried rows;
    ``None`` where only Delta can find them.
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
    """What a log holds only once: a file with its vector."""
    return listed.file.path, listed.file.deletion_vector, listed.left_out


def layers(
    files: Sequence[ListedFile], key_of: Callable[[ListedFile], Hashable] = in_log
) -> list[list[ListedFile]]:
    """``files`` in as few lists as can be, in each of which no two have the same key."""
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
        # For each query Delta lists all files of a table that may have vectors, to look for them.
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
    # Without row tracking Delta does not tell the position of a row.
    settings = {"delta.enableRowTracking": "true"}
    for setting in (ROW_ID_SETTING, ROW_VERSION_SETTING):
        settings[setting] = f"{_UNUSED}.{setting}" if own else layout.configuration[setting]
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
