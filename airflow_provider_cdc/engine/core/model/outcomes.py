"""The outcome of a consumption, and of each of its streams and statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ..html_tables import html_table
from ..summaries import counts_text, names_text, place_text


class StatementResult(StrEnum):
    """How a statement was applied, as this attempt found it."""

    APPLIED = "applied"
    ALREADY_APPLIED = "already_applied"


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """The outcome of one statement.

    ``target_version`` is the version of the target that holds it. ``metrics`` are Delta's operation
    metrics of that commit, empty if Delta wrote none. ``rewritten_as`` is the MERGE that ran
    instead of a DELETE or an UPDATE that Delta refuses. ``location`` is the root of the target;
    outcomes of older releases have none.
    """

    index: int
    target: str
    result: StatementResult
    target_version: int
    metrics: dict[str, int] = field(default_factory=dict)
    rewritten_as: str | None = None
    location: str = ""

    def __repr__(self) -> str:
        return (
            f"<StatementOutcome {self.index + 1} on {place_text(self.target)}:"
            f" {self.result.value.replace('_', ' ')} in version {self.target_version}>"
        )


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """What a consumption took of one table, and the strategy by which it read the table.

    ``through_timestamp`` is the commit time of ``through_version``. ``location`` is the root of the
    table; outcomes of older releases have none.
    """

    table: str
    after_version: int
    through_version: int
    strategy: str
    through_timestamp: datetime | None = None
    location: str = ""


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """What a consumption took of one stream.

    ``rows`` counts rows by what happened to them (``inserted``, ``updated``, ``deleted``). An
    update counts once, although it is two change rows. ``tables`` holds an outcome for each base
    table. The versions, the time and the strategy are those of the first table. Outcomes of older
    releases have no time.
    """

    stream_id: str
    name: str
    after_version: int
    through_version: int
    strategy: str
    rows: dict[str, int]
    tables: tuple[TableOutcome, ...] = ()
    through_timestamp: datetime | None = None

    def __repr__(self) -> str:
        return (
            f"<StreamOutcome {self.name} after version {self.after_version} through"
            f" {self.through_version}: {counts_text(self.rows)}>"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a committed consumption did."""

    consumption_id: str
    consumer: str
    streams: tuple[StreamOutcome, ...]
    statements: tuple[StatementOutcome, ...]
    seconds: float

    def __repr__(self) -> str:
        taken = "; ".join(
            f"{each.name} through version {each.through_version} ({counts_text(each.rows)})"
            for each in self.streams
        )
        targets = names_text((place_text(each.target) for each in self.statements), "statement")
        return (
            f"<Outcome {self.consumer} consumed {taken or 'nothing'}"
            f"{' into ' if targets else ''}{targets} in {self.seconds:.1f} s>"
        )

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        streams = html_table(
            ("stream", "after version", "through version", "rows"),
            (
                (each.name, each.after_version, each.through_version, counts_text(each.rows))
                for each in self.streams
            ),
            f"{self.consumer}, {self.seconds:.1f} s",
        )
        statements = html_table(
            ("target", "result", "version"),
            (
                (place_text(each.target), each.result.value.replace("_", " "), each.target_version)
                for each in self.statements
            ),
        )
        return streams + statements
