"""The definition of an upsert table: its columns, its key, and how stale it may be."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from ..arguments.intervals import interval_iso, interval_of
from ..arguments.one_or_several import one_or_several
from ..delta.columns import WITH_STATISTICS, Column, clustering_key, is_key_type, leaves
from ..errors import InvalidRequest
from ..names import TableName, first_alike, name_key, quote
from ..shown_values import shown
from ..summaries import names_text, place_text

CHANGE_TYPE = "_CHANGE_TYPE"
CHANGE_SEQUENCE_NUMBER = "_CHANGE_SEQUENCE_NUMBER"
CHANGE_UNCHANGED = "_CHANGE_UNCHANGED"
"""The column of a change that names the columns that an UPSERT leaves unchanged."""
STATE = "_cdc"
"""The column of a base table that holds, for each key, the sequence number of the last change, the
time of its deletion and the sequence numbers of older columns. All names that begin with it are
reserved.
"""

TOMBSTONE_HORIZON = timedelta(days=2)
"""How long a base keeps the tombstone of a delete, for changes that come late (BigQuery CDC: two
days).
"""

MAX_KEY_COLUMNS = 16
MAX_COLUMNS = 2_000

_CHANGES = "/_cdc/changes"
_QUARANTINE = "/_cdc/quarantine"
_PREFIX = "airflow_provider_cdc.upsert."
_PRIMARY_KEY = f"{_PREFIX}primary_key"
MAX_STALENESS = f"{_PREFIX}max_staleness"
HORIZON = f"{_PREFIX}tombstone_horizon"
_PARTIAL = f"{_PREFIX}partial_changes"
# Neither MERGE nor the run-time merge can compare such values.
_INCOMPARABLE = re.compile(r"\b(map|variant|collate)\b", re.IGNORECASE)
# Spark pads such a value only when it reads a table. Delta checks the length of a change's value
# only when the change is applied, after its writer has finished.
_WITH_LENGTH = re.compile(r"\b(?:var)?char\s*\(", re.IGNORECASE)
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_STATE_LEAVES = 4


class OnBadRows(StrEnum):
    """What happens to a row that cannot be a change: the whole write fails, or only the row goes to
    quarantine.
    """

    FAIL = "fail"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class UpsertTable:
    """An upsert table.

    ``base`` is the Delta table that changes are applied to. ``changes`` is the folder of the Delta
    table in which they wait, and ``stream`` is the stream on that table. ``max_staleness`` is how
    far a read may be behind what was written. ``None``: a read sees all that was written. If
    ``has_partial_changes``, a change may leave columns unchanged.
    """

    name: str
    base: TableName
    location: str
    table_id: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    max_staleness: timedelta | None = None
    tombstone_horizon: timedelta = TOMBSTONE_HORIZON
    has_partial_changes: bool = False

    @property
    def changes(self) -> str:
        """The root of the table in which changes wait: a hidden folder inside the base's folder."""
        return f"{self.location}{_CHANGES}"

    def __repr__(self) -> str:
        key = ", ".join(self.primary_key)
        columns = names_text((column.name for column in self.columns), "column")
        return f"<UpsertTable {place_text(self.name)} by {key}: {columns}>"

    @property
    def sql(self) -> str:
        """The base as SQL, identified by its location and not by the name that the user gave."""
        return f"delta.{quote(self.location)}"

    @property
    def quarantine(self) -> str:
        """The root of the table of the changes that could not be applied."""
        return f"{self.location}{_QUARANTINE}"

    @property
    def deletes(self) -> str:
        """The root of the table that remembers deletes whose tombstones have ended."""
        return f"{self.location}/_cdc/deletes"

    @property
    def stream(self) -> str:
        """The name of the stream on the changes that are not applied."""
        return f"upserts_{self.table_id.replace('-', '_')}"

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the columns that are not in the key."""
        return tuple(column.name for column in self.columns if column.name not in self.primary_key)

    @property
    def first_key(self) -> Column:
        """The first column of the key, by which files of the base are found."""
        name = self.primary_key[0]
        return Column(name, next(each.type for each in self.columns if each.name == name))

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the base table that store this definition, visible to any tool."""
        given = {
            # No backslash escapes: sessions read a backslash in different ways.
            _PRIMARY_KEY: json.dumps(self.primary_key, ensure_ascii=False),
            HORIZON: interval_iso(self.tombstone_horizon),
        }
        if self.max_staleness is not None:
            given[MAX_STALENESS] = interval_iso(self.max_staleness)
        if self.has_partial_changes:
            given[_PARTIAL] = "true"
        return given


def base_location(changes: str) -> str:
    """The root of the base whose changes wait at ``changes``."""
    return changes.removesuffix(_CHANGES)


def quarantine_location(changes: str) -> str:
    """The root of the quarantine of the table whose changes wait at ``changes``."""
    return f"{base_location(changes)}{_QUARANTINE}"


def is_upsert_table(properties: Mapping[str, str]) -> bool:
    """Whether a table with these ``properties`` is the base of an upsert table."""
    return _PRIMARY_KEY in properties


def with_properties(table: UpsertTable, properties: Mapping[str, str]) -> UpsertTable:
    """Return ``table`` as the properties of its base define it.

    :raises InvalidRequest: they are not the properties of an upsert table
    """
    key = properties.get(_PRIMARY_KEY)
    if key is None:
        raise InvalidRequest(
            f"table {table.name}",
            "is not an upsert table",
            cause=f"expected the table property {_PRIMARY_KEY}, found none",
            fix="create it with create_upsert_table",
        )
    staleness = properties.get(MAX_STALENESS)
    return replace(
        table,
        primary_key=_key_of(table, key),
        max_staleness=None if staleness is None else _length_of(table, MAX_STALENESS, staleness),
        tombstone_horizon=_length_of(table, HORIZON, properties.get(HORIZON, "")),
        has_partial_changes=properties.get(_PARTIAL) == "true",
    )


def checked_properties(table: UpsertTable) -> dict[str, str]:
    """The properties of the base of ``table``, which :func:`with_properties` reads back equal.

    :raises InvalidRequest: they would be read back differently
    """
    properties = table.properties
    if with_properties(table, properties) != table:
        raise InvalidRequest(
            f"upsert table {table.name}",
            "cannot be stored, nothing was written",
            cause=f"expected to read back {properties} as written, found a difference",
            fix="correct the primary key and the lengths of time",
        )
    return properties


def _key_of(table: UpsertTable, text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _damaged(table, _PRIMARY_KEY, "a JSON list of columns", text, '["id"]')
    return tuple(names)


def _length_of(table: UpsertTable, name: str, text: str) -> timedelta:
    try:
        return interval_of(text, name)
    except InvalidRequest:
        expected = "a length of time in ISO 8601"
        raise _damaged(table, name, expected, text, interval_iso(TOMBSTONE_HORIZON)) from None


def _damaged(
    table: UpsertTable, name: str, expected: str, text: str, example: str
) -> InvalidRequest:
    return InvalidRequest(
        f"upsert table {table.name}",
        "has a property that cannot be read",
        cause=f"{name}: expected {expected}, found {shown(text)}",
        fix=f"run ALTER TABLE {table.base.sql} SET TBLPROPERTIES ('{name}' = '{example}'), with"
        " the value that the table had",
    )


def checked_columns(
    name: str, columns: Sequence[Column], primary_key: Sequence[str]
) -> tuple[str, ...]:
    """The key columns, spelled as in ``columns``.

    BigQuery CDC: a primary key has at most 16 columns, and a table at most 2,000 columns. The
    pseudo-columns of changes are not columns of the table.

    :raises InvalidRequest: a rule is broken
    """
    known = {name_key(column.name): column for column in columns}
    key = [name_key(column) for column in primary_key]
    reserved = [column.name for column in columns if is_reserved(column.name)]
    if len(known) < len(columns):
        raise _invalid(name, "names a column twice", f"found {_twice(columns)}")
    if alike := first_alike(column.name for column in columns):
        cause = f"a MERGE treats {alike[0]} and {alike[1]} as one column"
        raise _invalid(name, "has columns of nearly the same name", cause)
    if reserved:
        raise _invalid(name, f"has a column {reserved[0]}", "that name is reserved for changes")
    if not 1 <= len(columns) <= MAX_COLUMNS:
        raise _invalid(
            name,
            f"has {len(columns)} columns",
            f"expected 1 to {MAX_COLUMNS}",
        )
    if not 1 <= len(key) <= MAX_KEY_COLUMNS or len(set(key)) < len(key):
        raise _invalid(
            name,
            f"has a primary key of {len(key)} columns",
            f"expected 1 to {MAX_KEY_COLUMNS} different ones, found {', '.join(primary_key)}",
        )
    for each in columns:
        if _INCOMPARABLE.search(_QUOTED.sub("", each.type)):
            cause = f"values of type {each.type} cannot be compared"
            raise _invalid(name, f"has the column {each.name}", cause)
    for column in key:
        if column not in known:
            raise _invalid(name, "has an unknown key column", f"there is no column {column}")
        if not is_key_type(known[column].type):
            raise _invalid(
                name,
                f"has the key column {known[column].name}",
                f"values of type {known[column].type} cannot be compared as a key",
            )
    return tuple(known[column].name for column in key)


def check_lengths(name: str, schema: str) -> None:
    """Refuse a column whose text has a length: CHAR or VARCHAR.

    :param schema: as SQL
    :raises InvalidRequest: there is such a column
    """
    if found := _WITH_LENGTH.search(_TEXT.sub("", _QUOTED.sub("", schema))):
        kind = found[0].rstrip("( ").upper()
        raise _invalid(name, f"has a column of {kind}", f"expected STRING, found {kind}(...)")


def clustered_by(
    name: str,
    columns: Sequence[Column],
    primary_key: Sequence[str],
    wanted: Collection[str] | None,
) -> tuple[str, ...]:
    """The columns that the base is clustered by.

    These are the ``wanted`` columns. If ``wanted`` is ``None``, they are the first four key columns
    that Delta keeps statistics of.

    :raises InvalidRequest: a wanted column does not exist
    """
    known = {name_key(column.name): column for column in columns}
    if wanted is None:
        key = [known[name_key(column)].name for column in primary_key]
        return clustering_key(columns, key, _STATE_LEAVES if is_wide(columns) else 0)
    names = one_or_several(f"upsert table {name}", "cluster_by", wanted)
    for given in names:
        if name_key(given) not in known:
            cause = f"there is no column {given}"
            raise _invalid(name, "cannot be clustered by these columns", cause)
    return tuple(known[name_key(given)].name for given in names)


def is_wide(columns: Iterable[Column]) -> bool:
    """Whether Delta would keep no statistics of the state column if it came after ``columns``.

    Delta keeps statistics of the first 32 columns only.
    """
    return leaves(columns) + _STATE_LEAVES > WITH_STATISTICS


def is_reserved(column: str) -> bool:
    """Whether a name is reserved. A column of the data may not have a reserved name."""
    folded = name_key(column)
    return folded.startswith((STATE, "metadata$")) or folded in (
        name_key(CHANGE_TYPE),
        name_key(CHANGE_SEQUENCE_NUMBER),
        name_key(CHANGE_UNCHANGED),
    )


def _twice(columns: Sequence[Column]) -> str:
    names = [name_key(column.name) for column in columns]
    return next(name for name in names if names.count(name) > 1)


def _invalid(name: str, problem: str, cause: str) -> InvalidRequest:
    return InvalidRequest(
        f"upsert table {name}", problem, cause=cause, fix="correct the schema or the primary key"
    )
