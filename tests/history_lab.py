"""A table of events and the history targets that its streams fill, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from history_model import Event, Interval
from stream_lab import StreamLab

from airflow_provider_cdc.engine import Engine, Outcome

COLUMNS = "k STRING, seq INT, op STRING, v STRING, u STRING"
ORDERED: dict[str, Any] = {
    "sequence_by": "seq",
    "apply_as_deletes": "op = 'D'",
    "except_column_list": ["seq", "op"],
}
Arrival = tuple[str | None, Event]


def literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)


class HistoryLab(StreamLab):
    """A table ``events`` with a stream for each target."""

    def make_events(self, *targets: str, columns: str = COLUMNS) -> None:
        """Make the table, and for each target the stream on its new rows."""
        self.make("events", columns)
        for target in targets:
            self.engine.create_stream(target, on_table=self.path("events"), mode="append_only")

    def deliver(self, arrivals: Sequence[Arrival]) -> None:
        """Write events in one commit, in their order."""
        rows = ", ".join(
            f"({literal(key)}, {literal(event.sequence)}, '{event.kind}',"
            f" {literal(event.values.get('v'))}, {literal(event.values.get('u'))})"
            for key, event in arrivals
        )
        names = "k, seq, op, v, u"
        self.sql(
            "INSERT INTO {events} SELECT /*+ COALESCE(1) */ "
            f"CAST(k AS STRING), CAST(seq AS INT), op, CAST(v AS STRING), CAST(u AS STRING)"
            f" FROM VALUES {rows} AS rows({names})"
        )

    def apply(self, target: str, engine: Engine | None = None, **options: Any) -> Outcome | None:
        """Apply what waits in the stream of a target."""
        found = engine or self.engine
        wanted = {**ORDERED, **options}
        return found.apply_changes(
            self.path(target), "k", stream=target, consumer=f"tests.{target}", **wanted
        )

    def intervals(self, target: str) -> dict[str, list[Interval]]:
        """The rows of a type 2 target by key, in the order of their starts."""
        found: dict[str, list[Interval]] = {}
        for row in self.spark.table(self.name(target)).collect():
            values = row.asDict()
            key, start, end = (values.pop(name) for name in ("k", "__START_AT", "__END_AT"))
            is_deleted = values.pop("__DELETED", False)
            found.setdefault(key, []).append(Interval(start, end, values, is_deleted))
        return {key: sorted(rows, key=lambda row: row.start) for key, rows in found.items()}

    def newest(self, target: str) -> dict[str, dict[str, Any]]:
        """The rows of a type 1 target by key."""
        rows = [row.asDict() for row in self.spark.table(self.name(target)).collect()]
        found = {row.pop("k"): row for row in rows}
        assert len(found) == len(rows), "a key has several rows"
        for row in found.values():
            row.pop("__START_AT", None)
        return found
