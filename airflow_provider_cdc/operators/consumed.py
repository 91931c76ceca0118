"""What a task consumed, and what its lineage needs besides: its statements, and columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.model.outcomes import Outcome
from airflow_provider_cdc.engine.core.names import quote, stream_key, table_name
from airflow_provider_cdc.engine.core.sql.stream_queries import is_query
from airflow_provider_cdc.jobs.model import Lineage


@dataclass(frozen=True, slots=True)
class Consumed:
    """A consumption of a task.

    ``statements`` are the texts of its statements in order, or other texts that say the same about
    columns. They are missing if a function wrote to the targets.
    """

    outcome: Outcome
    statements: tuple[str, ...] = ()
    lineage: Lineage = field(default_factory=Lineage)


def written(outcome: Outcome, statements: tuple[str, ...]) -> tuple[str, ...]:
    """The user's ``statements``, if ``outcome`` lists the streams that they read.

    It lists none if another driver finished what this one began. The name of a stream would then be
    taken for that of a table.
    """
    return statements if outcome.streams else ()


def copying(
    outcome: Outcome, source: str | None = None, stream: str | None = None
) -> tuple[str, ...]:
    """Statements that give the columns of each target what the engine gave them.

    Columns of a target come from the columns of the same names. A target has further columns, such
    as the start of a row in a history.

    :param source: what the targets were filled from: a query, or the name or path of a table; by
        default the only stream of ``outcome``
    :param stream: the stream that ``source`` reads, if it reads one
    """
    streams = {stream_key(each.name) for each in outcome.streams}
    if (source is None and len(streams) != 1) or (stream and stream_key(stream) not in streams):
        return ()
    try:
        query = source or f"SELECT * FROM {quote(outcome.streams[0].name)}"
        if not is_query(query):
            query = f"SELECT * FROM {table_name(query).sql}"
        targets = [table_name(each.target).sql for each in outcome.statements]
    except CdcError:
        return ()
    return tuple(f"INSERT INTO {target} BY NAME\n{query}" for target in targets)
