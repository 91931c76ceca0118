"""A Delta log of our own that lists exactly the files and rows that a change set has to read.

Spark reads it like any table, so row ids, deletion vectors, column mapping, partition values and
widened types stay Delta's own work. Three columns that the source does not have are added as
partition columns: which side of the range a file belongs to, the commit whose change it tells, and
the first row id that was given out to its own rows. Change files bring a fourth one of their own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pyroaring import BitMap64

from .log_actions import ROW_ID_SETTING, ROW_VERSION_SETTING, DataFile, DeletionVector
from .table_schema import FIELD_ID, MAX_COLUMN_ID, PHYSICAL_NAME, Layout

SIDE_COLUMN = "_cdc_side"
VERSION_COLUMN = "_cdc_version"
BASE_ROW_ID_COLUMN = "_cdc_base_row_id"
CHANGE_TYPE_COLUMN = "_change_type"

_PARTITION_COLUMNS = {SIDE_COLUMN: "string", VERSION_COLUMN: "long", BASE_ROW_ID_COLUMN: "long"}
_ROW_TRACKING_SETTINGS = (
    "delta.enableRowTracking",
    ROW_ID_SETTING,
    ROW_VERSION_SETTING,
)
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
    of the only rows to read, where the file's vector was made to leave just those.
    """

    side: Side
    file: DataFile
    version: int | None = None
    kept: BitMap64 | None = None


def crafted_log(
    layout: Layout,
    protocol: Mapping[str, Any],
    files: Sequence[ListedFile],
    table_id: str,
    *,
    has_change_files: bool = False,
) -> bytes:
    """The content of the only commit of a crafted log.

    :param layout: how the files are read
    :param protocol: the source's protocol action, of which the reader features are kept
    :param table_id: an id for the crafted table
    :param has_change_files: some of the files are change files, whose rows say what they are
    """
    actions: list[dict[str, Any]] = [
        {"protocol": _protocol(layout, protocol)},
        {"metaData": _metadata(layout, table_id, has_change_files)},
    ]
    actions.extend({"add": _add(listed)} for listed in files)
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()


def layers(files: Sequence[ListedFile]) -> list[list[ListedFile]]:
    """``files`` in as few logs as can hold them: a log holds a file and a vector only once."""
    found: list[list[ListedFile]] = []
    seen: Counter[tuple[str, DeletionVector | None]] = Counter()
    for listed in files:
        key = listed.file.path, listed.file.deletion_vector
        if seen[key] == len(found):
            found.append([])
        found[seen[key]].append(listed)
        seen[key] += 1
    return found


def _protocol(layout: Layout, source: Mapping[str, Any]) -> dict[str, Any]:
    features = {"deletionVectors", *(source.get("readerFeatures") or ())} - _NOT_FOR_READING
    if layout.is_mapped:
        features.add("columnMapping")
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted(features),
        "writerFeatures": sorted({*features, "rowTracking", "domainMetadata"}),
    }


def _metadata(layout: Layout, table_id: str, has_change_files: bool) -> dict[str, Any]:
    settings = {
        name: layout.configuration[name]
        for name in _ROW_TRACKING_SETTINGS
        if name in layout.configuration
    }
    if layout.is_mapped:
        settings["delta.columnMapping.mode"] = layout.mapping_mode
        settings[MAX_COLUMN_ID] = str(layout.max_column_id + len(_PARTITION_COLUMNS) + 1)
    extra = [
        _extra_field(layout, name, kind, number)
        for number, (name, kind) in enumerate(_PARTITION_COLUMNS.items(), 1)
    ]
    if has_change_files:
        number = len(_PARTITION_COLUMNS) + 1
        extra.append(_extra_field(layout, CHANGE_TYPE_COLUMN, "string", number))
    return {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
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


def _add(listed: ListedFile) -> dict[str, Any]:
    file = listed.file
    action: dict[str, Any] = {
        "path": file.path,
        "partitionValues": {
            **file.partition_values,
            SIDE_COLUMN: listed.side.value,
            VERSION_COLUMN: _text(listed.version),
            BASE_ROW_ID_COLUMN: _text(file.base_row_id),
        },
        "size": file.size_bytes,
        "modificationTime": 0,
        "dataChange": True,
        "baseRowId": file.base_row_id,
        "defaultRowCommitVersion": file.default_row_commit_version,
    }
    if file.stats:
        action["stats"] = file.stats
    if file.deletion_vector is not None:
        action["deletionVector"] = file.deletion_vector.as_action()
    return action


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
