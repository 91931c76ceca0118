"""What a consumption takes of one stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.change_sets.read_plan import ReadPlan
from ..core.model.outcomes import StreamOutcome, TableOutcome
from ..storage.sources.source_log import StreamSpan


def stream_outcome(
    span: StreamSpan, plans: Sequence[ReadPlan], rows: Mapping[str, int]
) -> StreamOutcome:
    """The outcome of a stream whose change set covers ``span``.

    :param plans: how each base table is read
    :param rows: the number of rows that are ``inserted``, ``updated`` and ``deleted``
    """
    tables = tuple(
        TableOutcome(
            table.stream.source.name,
            table.start.version,
            table.end.version,
            plan.strategy.value,
            table.end.timestamp,
            table.stream.source.location,
        )
        for table, plan in zip(span.tables, plans, strict=True)
    )
    first, stream = tables[0], span.stream
    return StreamOutcome(
        stream.stream_id,
        stream.name,
        first.after_version,
        first.through_version,
        first.strategy,
        dict(rows),
        tables,
        first.through_timestamp,
    )
