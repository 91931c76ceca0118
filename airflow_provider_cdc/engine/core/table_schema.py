"""Schemas of Delta tables as their ``metaData`` actions hold them, and how two of them relate."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

FIELD_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
MAPPING_MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
_COLLATIONS = "__COLLATIONS"
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"

# What a reader needs of a field's metadata; defaults, identity and comments concern writers.
# Spark pads the values of CHAR columns when it reads them.
_READER_METADATA = (
    FIELD_ID,
    PHYSICAL_NAME,
    "delta.typeChanges",
    _COLLATIONS,
    _LENGTH,
)
_NESTED_IDS = "delta.columnMapping.nested.ids"
_PADDED = re.compile(r"\bchar\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Layout:
    """What of a ``metaData`` action decides how data files are read.

    ``fields`` are the top-level fields in their JSON form, all nullable and with the metadata
    that readers need.
    """

    fields: tuple[Mapping[str, Any], ...]
    partition_columns: tuple[str, ...]
    mapping_mode: str
    max_column_id: int
    configuration: Mapping[str, str]

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Layout:
        """The layout that a ``metaData`` action describes."""
        configuration = metadata.get("configuration") or {}
        fields = json.loads(metadata["schemaString"])["fields"]
        return cls(
            tuple(_reader_field(field) for field in fields),
            tuple(metadata.get("partitionColumns") or ()),
            mapping_mode(configuration),
            int(configuration.get(MAX_COLUMN_ID, 0)),
            configuration,
        )

    @property
    def is_mapped(self) -> bool:
        """Whether column mapping is on."""
        return self.mapping_mode != "none"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(field["name"] for field in self.fields)

    def reads_files_of(self, older: Layout) -> bool:
        """Whether this layout gives right values of a file that was written under ``older``.

        True when columns were only added, renamed or dropped: then their physical names and their
        types are what they were. Both must stand on one :func:`matching_path` of two.
        """
        if (self.mapping_mode, self.partition_columns) != (
            older.mapping_mode,
            older.partition_columns,
        ):
            return False
        types = {physical_name(field): field["type"] for field in older.fields}
        return all(
            types.get(physical_name(field), field["type"]) == field["type"] for field in self.fields
        )

    def identifies_columns_as(self, older: Layout) -> bool:
        """Whether column ids mean the same columns here as they did in ``older``, whatever lay in
        between, as after a RESTORE.
        """
        if self.fields == older.fields:
            return True
        if not (self.is_mapped and older.is_mapped):
            return False
        names = {field["metadata"].get(FIELD_ID): physical_name(field) for field in older.fields}
        shared = [field for field in self.fields if field["metadata"].get(FIELD_ID) in names]
        return bool(shared) and all(
            names[field["metadata"].get(FIELD_ID)] == physical_name(field) for field in shared
        )


def matching_path(history: Sequence[Layout]) -> tuple[Layout, ...]:
    """The layouts of a table's ``history`` from one to the next of which columns can be matched.

    These are its two ends. Where column mapping came or went in between, ids were given out anew,
    and only the names right before and right after that tell which column is which.
    """
    first, last = history[0], history[-1]
    switches = [
        (before, after)
        for before, after in pairwise(history)
        if before.is_mapped != after.is_mapped
    ]
    if not switches or last.identifies_columns_as(first):
        return first, last
    return (first, *chain.from_iterable(switches), last)


def other_columns(history: Sequence[Layout]) -> frozenset[str]:
    """The names, without case, of columns on both ends of ``history`` that are other columns at its
    end, or have another type: what is computed from them may differ though no row does.

    :param history: the layouts that were in force one after the other
    """
    path = matching_path(history)
    before = {name.casefold() for name in path[0].column_names}
    return frozenset(
        name
        for field in path[-1].fields
        if (name := field["name"].casefold()) in before and _first_name(field, path) != name
    )


def mapping_mode(configuration: Mapping[str, Any]) -> str:
    """How a table with these properties finds its columns: ``none``, ``name`` or ``id``."""
    # It stands there as it was typed; Delta reads it in any case.
    return str(configuration.get(MAPPING_MODE, "none")).lower()


def physical_name(field: Mapping[str, Any]) -> str:
    """The name of a field inside data files, statistics and partition values."""
    return str(field["metadata"].get(PHYSICAL_NAME, field["name"]))


def matching_field(
    wanted: Mapping[str, Any], candidates: tuple[Mapping[str, Any], ...]
) -> Mapping[str, Any] | None:
    """The field of an older schema that is ``wanted`` today: by column id where both have one,
    else by name; ``None`` when it was added since.
    """
    wanted_id = wanted["metadata"].get(FIELD_ID)
    for field in candidates:
        field_id = field["metadata"].get(FIELD_ID)
        if wanted_id is not None and field_id is not None:
            if wanted_id == field_id:
                return field
        elif field["name"].casefold() == wanted["name"].casefold():
            return field
    return None


def _first_name(field: Mapping[str, Any], path: Sequence[Layout]) -> str | None:
    """The name that the last layout's ``field`` had under the first one; ``None`` where it was not
    there, or its values were of another type.
    """
    for layout in reversed(path[:-1]):
        older = matching_field(field, layout.fields)
        if older is None or not _reads_alike(field, older):
            return None
        field = older
    return str(field["name"]).casefold()


def _reads_alike(today: Mapping[str, Any], then: Mapping[str, Any]) -> bool:
    """Whether two fields, whatever they are called, hold the same values and compare them alike."""
    metadata, older = today["metadata"], then["metadata"]
    return (
        metadata.get(_COLLATIONS) == older.get(_COLLATIONS)
        and _padding(metadata) == _padding(older)
        and _is_same_type(today["type"], then["type"])
    )


def _padding(metadata: Mapping[str, Any]) -> str | None:
    """How long values of CHAR are made; of VARCHAR only writers keep the length."""
    length = str(metadata.get(_LENGTH, ""))
    return length if _PADDED.search(length) else None


def _is_same_type(today: Any, then: Any) -> bool:
    if isinstance(today, str) or isinstance(then, str) or today["type"] != then["type"]:
        return bool(today == then)
    if today["type"] == "array":
        return _is_same_type(today["elementType"], then["elementType"])
    if today["type"] == "map":
        return all(_is_same_type(today[part], then[part]) for part in ("keyType", "valueType"))
    if today["type"] != "struct" or len(today["fields"]) != len(then["fields"]):
        return bool(today == then)
    return all(
        field["name"].casefold() == older["name"].casefold()
        and matching_field(field, (older,)) is not None
        and _reads_alike(field, older)
        for field, older in zip(today["fields"], then["fields"], strict=True)
    )


def _reader_field(field: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        name: value
        for name, value in (field.get("metadata") or {}).items()
        if name in (*_READER_METADATA, _NESTED_IDS)
    }
    return {
        "name": field["name"],
        "type": _nullable(field["type"]),
        "nullable": True,
        "metadata": kept,
    }


def _nullable(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {"type": "struct", "fields": [_reader_field(field) for field in kind["fields"]]}
    if kind["type"] == "array":
        return {**kind, "elementType": _nullable(kind["elementType"]), "containsNull": True}
    if kind["type"] == "map":
        return {
            **kind,
            "keyType": _nullable(kind["keyType"]),
            "valueType": _nullable(kind["valueType"]),
            "valueContainsNull": True,
        }
    return kind
