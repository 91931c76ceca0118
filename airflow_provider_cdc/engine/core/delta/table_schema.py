"""Schemas of Delta tables as their ``metaData`` actions hold them, and how two of them relate."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from ..names import name_key

FIELD_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
MAPPING_MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
# The metadata that holds the type of CHAR and VARCHAR columns. They are strings otherwise.
LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
_COLLATIONS = "__COLLATIONS"

# What a reader needs of a field's metadata. Defaults, identity and comments concern writers. Spark
# pads the values of CHAR columns when it reads them.
_READER_METADATA = (
    FIELD_ID,
    PHYSICAL_NAME,
    "delta.typeChanges",
    _COLLATIONS,
    LENGTH,
)
_NESTED_IDS = "delta.columnMapping.nested.ids"
# The keys of the types inside an array or a map.
_ELEMENTS = ("elementType", "keyType", "valueType")
_PADDED = re.compile(r"\bchar\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a ``metaData`` action that decide how data files are read.

    ``fields`` are the top-level fields in their JSON form, all nullable and with the metadata that
    readers need.
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

    def reads_as(self, other: Layout) -> bool:
        """Whether files of either layout are read in the same way under both.

        Other parts may differ.
        """
        return (self.fields, self.partition_columns, self.mapping_mode) == (
            other.fields,
            other.partition_columns,
            other.mapping_mode,
        )

    def reads_files_of(self, older: Layout) -> bool:
        """Whether this layout reads correct values from a file that was written under ``older``.

        True if columns were only added, renamed or dropped. Then their physical names and their
        types are the same. The two layouts must be neighbours on a :func:`matching_path`.
        """
        if (self.mapping_mode, self.partition_columns) != (
            older.mapping_mode,
            older.partition_columns,
        ):
            return False
        types = {physical_name(field): field["type"] for field in older.fields}
        # Parquet would match a column to another one whose name differs only in case, even if the
        # types differ.
        names = set(map(name_key, types))
        today = {physical_name(field): field["type"] for field in self.fields}
        return all(
            types[name] == kind if name in types else name_key(name) not in names
            for name, kind in today.items()
        )


def matching_path(steps: Sequence[Layout]) -> tuple[Layout, ...]:
    """The layouts of ``steps`` between which columns can be matched, from one to the next.

    Of two neighbours in ``steps``, one was made from the other. The path has the first and the last
    step. Between them, column mapping may be switched on or off, or an overwrite of the schema may
    give columns another type. Then new ids are assigned, and only the names right before and right
    after show which column is which. So the path has these layouts too.
    """
    switches = (_switch(before, after) for before, after in pairwise(steps))
    return (steps[0], *chain.from_iterable(switches), steps[-1])


def gives_ids_anew(before: Layout, after: Layout) -> bool:
    """Whether a column kept its name and got another id.

    That happens if an overwrite of the schema made ``after`` from ``before``, or the other way
    round. An id with two physical names counts as two ids: a column keeps its physical name with
    its id, but a clone brings the ids of another table.
    """
    if not (before.is_mapped and after.is_mapped):
        return False
    ids, others = _ids(before.fields), _ids(after.fields)
    before_all, after_all = set(ids.values()), set(others.values())
    return any(
        ids[name] not in after_all and others[name] not in before_all
        for name in ids.keys() & others.keys()
    )


def _switch(before: Layout, after: Layout) -> tuple[Layout, ...]:
    """The layouts to pass between ``before`` and ``after`` to match their columns.

    Empty if none are needed.
    """
    if before.is_mapped != after.is_mapped:
        return before, after
    if not gives_ids_anew(before, after):
        return ()
    both = set(_ids(before.fields).values()) & set(_ids(after.fields).values())
    shared = {number for number, _ in both}
    named = (
        replace(each, fields=tuple(_only_ids(field, shared) for field in each.fields))
        for each in (before, after)
    )
    return (before, *named, after)


def _ids(fields: Iterable[Mapping[str, Any]], prefix: str = "") -> dict[str, tuple[int, str]]:
    """The ids of ``fields`` and of all fields in them, by their paths of names.

    Each id comes with its physical name.
    """
    found: dict[str, tuple[int, str]] = {}
    for field in fields:
        path = f"{prefix}{name_key(field['name'])}"
        if FIELD_ID in field["metadata"]:
            found[path] = field["metadata"][FIELD_ID], physical_name(field)
        found |= _ids_in(field["type"], f"{path}.")
    return found


def _ids_in(kind: Any, prefix: str) -> dict[str, tuple[int, str]]:
    if isinstance(kind, str):
        return {}
    if kind["type"] == "struct":
        return _ids(kind["fields"], prefix)
    found: dict[str, tuple[int, str]] = {}
    for part in _ELEMENTS:
        if part in kind:
            found |= _ids_in(kind[part], f"{prefix}{part}.")
    return found


def _only_ids(field: Mapping[str, Any], kept: Collection[int]) -> dict[str, Any]:
    """``field`` with only the ids that are ``kept``, its own and those of the fields in it."""
    metadata = {
        name: value
        for name, value in field["metadata"].items()
        if name != FIELD_ID or value in kept
    }
    return {**field, "metadata": metadata, "type": _only_ids_in(field["type"], kept)}


def _only_ids_in(kind: Any, kept: Collection[int]) -> Any:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": [_only_ids(field, kept) for field in kind["fields"]]}
    return {**kind, **{part: _only_ids_in(kind[part], kept) for part in _ELEMENTS if part in kind}}


def other_columns(steps: Sequence[Layout]) -> frozenset[str]:
    """The names, without case, at both ends of ``steps`` whose column or type differs at the end.

    A value that is computed from these columns may differ even if no row differs.

    :param steps: layouts; of two neighbours, one was made from the other
    """
    path = matching_path(steps)
    before = set(map(name_key, path[0].column_names))
    older = [OlderFields(layout.fields) for layout in reversed(path[:-1])]
    return frozenset(
        name
        for field in path[-1].fields
        if (name := name_key(field["name"])) in before and _first_name(field, older) != name
    )


def mapping_mode(configuration: Mapping[str, Any]) -> str:
    """How a table with these properties finds its columns: ``none``, ``name`` or ``id``."""
    # The property keeps the spelling that was typed. Delta ignores its case.
    return str(configuration.get(MAPPING_MODE, "none")).lower()


def physical_name(field: Mapping[str, Any]) -> str:
    """The name of a field inside data files, statistics and partition values."""
    return str(field["metadata"].get(PHYSICAL_NAME, field["name"]))


class OlderFields:
    """The fields of an older schema, in which the fields of today's schema are found.

    A table may have thousands of columns, so no lookup goes through all of them.
    """

    def __init__(self, fields: Iterable[Mapping[str, Any]]) -> None:
        self._by_id: dict[int, Mapping[str, Any]] = {}
        self._by_name: dict[str, list[Mapping[str, Any]]] = {}
        for field in fields:
            field_id = field["metadata"].get(FIELD_ID)
            if field_id is not None:
                self._by_id.setdefault(field_id, field)
            self._by_name.setdefault(name_key(field["name"]), []).append(field)

    def match(self, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The older field that is ``wanted`` today. ``None`` if it was added since.

        Fields match by column id if both have one. Otherwise they match by name, first as it is
        spelled and then without case.
        """
        name, wanted_id = wanted["name"], wanted["metadata"].get(FIELD_ID)
        if wanted_id in self._by_id:
            return self._by_id[wanted_id]
        alike = [
            field
            for field in self._by_name.get(name_key(name), ())
            if wanted_id is None or field["metadata"].get(FIELD_ID) is None
        ]
        exact = (field for field in alike if field["name"] == name)
        return next(exact, alike[0] if alike else None)


def matching_field(
    wanted: Mapping[str, Any], candidates: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The one of a few ``candidates`` that is ``wanted`` today; see :meth:`OlderFields.match`."""
    return OlderFields(candidates).match(wanted)


def _first_name(field: Mapping[str, Any], path: Iterable[OlderFields]) -> str | None:
    """The name that ``field`` had in the last schema of ``path``.

    ``path`` leads back from the schema of ``field``. ``None`` if the field was not there, or its
    values had another type.
    """
    for fields in path:
        older = fields.match(field)
        if older is None or not _reads_alike(field, older):
            return None
        field = older
    return name_key(field["name"])


def _reads_alike(today: Mapping[str, Any], then: Mapping[str, Any]) -> bool:
    """Whether two fields hold the same values and compare them in the same way.

    Names may differ.
    """
    metadata, older = today["metadata"], then["metadata"]
    return (
        metadata.get(_COLLATIONS) == older.get(_COLLATIONS)
        and _padding(metadata) == _padding(older)
        and _is_same_type(today["type"], then["type"])
    )


def _padding(metadata: Mapping[str, Any]) -> str | None:
    """The length that CHAR values are padded to. For VARCHAR, only writers use the length."""
    length = str(metadata.get(LENGTH, ""))
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
        name_key(field["name"]) == name_key(older["name"])
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
