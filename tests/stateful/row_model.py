"""A plain Python model of a table with streams: rows by row id, version by version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_provider_cdc.engine import AppendSemantics, StreamMode

Row = dict[str, Any]
Rows = dict[int, Row]


class Change(NamedTuple):
    """One row of a change set; ``values`` are in the order of the columns at the range's end."""

    row_id: int
    action: str
    is_update: bool
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table at one version."""

    columns: tuple[str, ...]
    rows: Mapping[int, Row]

    def values(self, row: Row, columns: Iterable[str] | None = None) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in columns or self.columns)


@dataclass(frozen=True, slots=True)
class Inserted:
    """A row as a statement inserted it."""

    version: int
    row_id: int
    row: Row


@dataclass
class TableModel:
    """A table of rows, its versions, and all rows ever inserted into it.

    The model learns the row ids of inserted rows once, and predicts everything else.
    """

    columns: list[str]
    version: int = 0
    rows: Rows = field(default_factory=dict)
    history: dict[int, Snapshot] = field(default_factory=dict)
    insertions: list[Inserted] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.record(self.version)

    def record(self, version: int) -> None:
        """Record the current table as the content of all new versions up to ``version``."""
        snapshot = Snapshot(tuple(self.columns), {key: dict(row) for key, row in self.rows.items()})
        for passed in range(self.version + 1, version + 1):
            self.history[passed] = snapshot
        self.history.setdefault(version, snapshot)
        self.version = version

    def insert(self, version: int, rows: Rows) -> None:
        assert not rows.keys() & {item.row_id for item in self.insertions}, "a row id came twice"
        self.rows.update({row_id: dict(row) for row_id, row in rows.items()})
        self.insertions.extend(Inserted(version, row_id, dict(row)) for row_id, row in rows.items())

    def update(self, chosen: Callable[[Row], bool], change: Callable[[Row], Row]) -> None:
        for row in self.rows.values():
            if chosen(row):
                row.update(change(row))

    def delete(self, chosen: Callable[[Row], bool]) -> None:
        self.rows = {row_id: row for row_id, row in self.rows.items() if not chosen(row)}

    def add_column(self, name: str) -> None:
        self.columns.append(name)

    def restore(self, version: int) -> None:
        past = self.history[version]
        self.columns = list(past.columns)
        self.rows = {row_id: dict(row) for row_id, row in past.rows.items()}

    def keys(self) -> list[int]:
        return sorted(row["k"] for row in self.rows.values())

    def change_set(self, stream: StreamModel, through: int | None = None) -> Counter[Change]:
        """The minimal change set from the stream's offset, by the stream's mode."""
        last = self.version if through is None else through
        end = self.history[last]
        if stream.mode is StreamMode.STANDARD:
            return Counter(_net(self.history[stream.offset], end))
        born = [item for item in self.insertions if stream.offset < item.version <= last]
        if stream.semantics is AppendSemantics.INSERTED:
            rows = [(item.row_id, item.row) for item in born]
        else:
            live = {item.row_id for item in born} & end.rows.keys()
            rows = [(row_id, end.rows[row_id]) for row_id in live]
        return Counter(Change(row_id, "INSERT", False, end.values(row)) for row_id, row in rows)

    def changes_of(self, version: int, last: int) -> Counter[Change]:
        """The changes of one commit, with the columns at version ``last``."""
        columns = self.history[last].columns
        before, after = (
            Snapshot(columns, self.history[each].rows) for each in (version - 1, version)
        )
        return Counter(_net(before, after))


@dataclass
class Pending:
    """A consumption that began and did not end, because its driver crashed."""

    consumer: str
    streams: tuple[str, ...]
    through: int
    consumption_id: str | None = None
    applied: int = 0
    is_resolving: bool = False


@dataclass
class StreamModel:
    """A stream, and the rows that its consumptions have written to its log target so far."""

    name: str
    mode: StreamMode
    semantics: AppendSemantics
    offset: int
    pending: Pending | None = None
    consumed: Counter[Change] = field(default_factory=Counter)

    def commit(self, table: TableModel, through: int) -> None:
        end = table.history[through]
        positions = [end.columns.index(name) for name in LOGGED]
        for change, count in table.change_set(self, through).items():
            values = tuple(change.values[position] for position in positions)
            self.consumed[change._replace(values=values)] += count
        self.offset = through


LOGGED = ("k", "p", "v", "s")


def _net(old: Snapshot, new: Snapshot) -> list[Change]:
    changes = []
    for row_id in old.rows.keys() | new.rows.keys():
        before = new.values(old.rows[row_id]) if row_id in old.rows else None
        after = new.values(new.rows[row_id]) if row_id in new.rows else None
        is_update = before is not None and after is not None
        if before == after:
            continue
        if before is not None:
            changes.append(Change(row_id, "DELETE", is_update, before))
        if after is not None:
            changes.append(Change(row_id, "INSERT", is_update, after))
    return changes
