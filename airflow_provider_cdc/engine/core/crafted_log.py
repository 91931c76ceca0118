"""A Delta log of our own that lists exactly the files and rows that a change set has to read.

Spark reads it like any table, so row ids, deletion vectors, column mapping, partition values and
widened types stay Delta's own work. Two columns that the source does not have are added as
partition columns: which side of the range a file belongs to, and the first row id that was given
out to its own rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .log_actions import DataFile
from .table_schema import FIELD_ID, MAX_COLUMN_ID, PHYSICAL_NAME, Layout

SIDE_COLUMN = "_cdc_side"
BASE_ROW_ID_COLUMN = "_cdc_base_row_id"

_ROW_TRACKING_SETTINGS = (
    "delta.enableRowTracking",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
# Features that say how a table is written or kept, not how its files are read.
_NOT_FOR_READING = frozenset(
    {"v2Checkpoint", "vacuumProtocolCheck", "catalogManaged", "catalogOwned-preview"}
)


class Side(StrEnum):
    """Which end of the range a file stands for."""

    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file of a crafted log; its path and that of its vector are absolute already."""

    side: Side
    file: DataFile


def crafted_log(
    layout: Layout, protocol: Mapping[str, Any], files: Sequence[ListedFile], table_id: str
) -> bytes:
    """The content of the only commit of a crafted log.

    :param layout: how the files are read
    :param protocol: the source's protocol action, of which the reader features are kept
    :param table_id: an id for the crafted table
    """
    actions: list[dict[str, Any]] = [
        {"protocol": _protocol(layout, protocol)},
        {"metaData": _metadata(layout, table_id)},
    ]
    actions.extend({"add": _add(listed)} for listed in files)
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()


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


def _metadata(layout: Layout, table_id: str) -> dict[str, Any]:
    settings = {
        name: layout.configuration[name]
        for name in _ROW_TRACKING_SETTINGS
        if name in layout.configuration
    }
    if layout.is_mapped:
        settings["delta.columnMapping.mode"] = layout.mapping_mode
        settings[MAX_COLUMN_ID] = str(layout.max_column_id + 2)
    extra = [
        _extra_field(layout, SIDE_COLUMN, "string", 1),
        _extra_field(layout, BASE_ROW_ID_COLUMN, "long", 2),
    ]
    return {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [*layout.fields, *extra]}),
        "partitionColumns": [*layout.partition_columns, SIDE_COLUMN, BASE_ROW_ID_COLUMN],
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
    base_row_id = None if file.base_row_id is None else str(file.base_row_id)
    action: dict[str, Any] = {
        "path": file.path,
        "partitionValues": {
            **file.partition_values,
            SIDE_COLUMN: listed.side.value,
            BASE_ROW_ID_COLUMN: base_row_id,
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
