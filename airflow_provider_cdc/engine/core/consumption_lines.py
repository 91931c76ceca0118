"""The log lines of a consumption: what it reads and why, each statement, and the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .change_sets.read_plan import ReadPlan, Strategy
from .figures import counted, extent_text, rows_text
from .model.consumption import Consumption, PlannedStatement, StreamRange, TableRange
from .model.outcomes import Outcome, StatementOutcome, StatementResult
from .model.stream import Stream

# Delta's metrics of a commit, by what happened to the rows.
_OF_MERGE = {
    "inserted": "numTargetRowsInserted",
    "updated": "numTargetRowsUpdated",
    "deleted": "numTargetRowsDeleted",
}
# An UPDATE and a DELETE may also count the rows that they copied as output rows.
_OF_OTHERS = {"updated": "numUpdatedRows", "deleted": "numDeletedRows", "inserted": "numOutputRows"}


def reading_lines(stream: Stream, taken: StreamRange, plans: Sequence[ReadPlan]) -> tuple[str, ...]:
    """What a consumption reads of ``stream``, and how: one line for each of its tables.

    :param taken: the range of each table, in the order of ``plans``
    """
    name = _shown(stream)
    return tuple(
        f"{name}: {_reading(base.source.name, table, plan)}"
        for base, table, plan in zip(stream.bases, taken.tables, plans, strict=True)
    )


def changes_line(stream: Stream, rows: Mapping[str, int], seconds: float) -> str:
    """How many rows of ``stream`` changed, by kind, and how many seconds the count took."""
    return f"{_shown(stream)}: {rows_text(rows)}, counted in {seconds:.1f} s"


def statement_line(
    consumption: Consumption, planned: PlannedStatement, found: StatementOutcome, seconds: float
) -> str:
    """What a statement did to its target, in how many seconds, and the share of statements done."""
    line = f"statement {consumption.ordinal_of(planned)} on {found.target}:"
    if found.result is StatementResult.ALREADY_APPLIED:
        line += f" an earlier attempt applied it, version {found.target_version}"
    else:
        line += f" {metrics_text(found.metrics)} in {seconds:.1f} s"
        line += f", version {found.target_version}"
    if consumption.is_open_ended:
        return line
    return f"{line}; {(planned.index + 1) / len(consumption.statements):.0%} done"


def closing_line(outcome: Outcome) -> str:
    """What a consumption consumed, by how many statements, and how long it took."""
    by = f"by {counted(len(outcome.statements), 'statement')} in {outcome.seconds:.1f} s"
    if not outcome.streams:
        return f"{outcome.consumer}: another attempt applied everything, {by}"
    ends = [f"{each.name} up to version {each.through_version}" for each in outcome.streams]
    return f"{outcome.consumer}: consumed {' and '.join(ends)} {by}"


def metrics_text(metrics: Mapping[str, int]) -> str:
    """The rows that a statement wrote, by Delta's metrics of its commit."""
    if not metrics.keys().isdisjoint(_OF_MERGE.values()):
        return rows_text({kind: metrics.get(name, 0) for kind, name in _OF_MERGE.items()})
    for kind, name in _OF_OTHERS.items():
        if name in metrics:
            return rows_text({kind: metrics[name]})
    return "rows not counted"


def versions_text(after_version: int, through_version: int) -> str:
    """The versions of a range as text, such as ``versions 5 to 7``.

    :param after_version: exclusive
    :param through_version: inclusive
    """
    first = after_version + 1
    if through_version < first:
        return f"no version after {after_version}"
    if through_version == first:
        return f"version {first}"
    return f"versions {first} to {through_version}"


def _shown(stream: Stream) -> str:
    if stream.upsert_table is not None:
        return f"changes of upsert table {stream.upsert_table}"
    return f"stream {stream.name}"


def _reading(source: str, taken: TableRange, plan: ReadPlan) -> str:
    end = taken.through.version
    if plan.strategy is Strategy.INITIAL_ROWS:
        return f"reads the rows of {source} at version {end}: {plan.reason}"
    if plan.strategy is Strategy.COMPARISON:
        return f"compares {source} at version {end} with the target: {plan.reason}"
    what = f"{versions_text(taken.after_version, end)} of {source}"
    commits = counted(plan.commit_count, "commit")
    if plan.strategy is Strategy.NOTHING:
        return f"reads nothing of {what} ({commits}): {plan.reason}"
    size = extent_text(plan.size_bytes, plan.file_count)
    strategy = plan.strategy.value.replace("_", " ")
    return f"reads {what} ({commits}, {size}) by {strategy}: {plan.reason}"
