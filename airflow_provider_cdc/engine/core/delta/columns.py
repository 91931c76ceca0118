"""The columns of a table: which of them can be a key, and which of them order its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WITH_STATISTICS = 32
"""How many leaf columns, from the first, Delta keeps statistics of."""

_MAX_CLUSTERED = 4
_CLUSTERABLE = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "decimal",
    "string",
    "date",
    "timestamp",
)
_NO_KEY_TYPES = ("array", "map", "struct", "variant", "float", "double")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the data: its name, and its type as SQL writes it."""

    name: str
    type: str


def is_key_type(kind: str) -> bool:
    """Whether values of a type can be compared as a key.

    :param kind: the type, as SQL writes it
    """
    return not kind.lower().startswith(_NO_KEY_TYPES)


def leaves(columns: Iterable[Column]) -> int:
    """How many leaf columns ``columns`` have, or a few more.

    Each field of a struct counts. The structs are counted too, so the result may be too high but
    not too low.
    """
    return sum(1 + column.type.count(":") for column in columns)


def clustering_key(
    columns: Sequence[Column], key: Iterable[str], leaves_before: int = 0
) -> tuple[str, ...]:
    """The first four columns of a key that Delta keeps statistics of, and can cluster by.

    :param columns: the columns of the table, in order
    :param key: the names of the key columns, as ``columns`` spell them
    :param leaves_before: how many leaf columns the table has before ``columns``
    """
    early = set()
    for column in columns:
        leaves_before += leaves([column])
        if leaves_before <= WITH_STATISTICS and column.type.startswith(_CLUSTERABLE):
            early.add(column.name)
    return tuple([name for name in key if name in early][:_MAX_CLUSTERED])
