"""The messages in a source of a history target, as its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...core.debezium.envelope import PayloadOptions
from ...core.delta.columns import Column
from ...core.history.options import HistoryOptions
from ...core.history.shape import sequence_sql
from ..debezium.decoding import decoded
from ..tables.sql_types import declared_columns
from .source_rows import SourceRows


def unwrapped(
    source: SourceRows,
    options: HistoryOptions,
    subject: str,
    known: Callable[[], Sequence[Column] | None],
) -> SourceRows:
    """The rows that the messages in ``source`` are about; without ``payload``, the source itself.

    Old rows of a table of messages say nothing: that a message was deleted does not change the
    table that it is about.

    :param known: returns the columns of the target, if it exists
    :raises InvalidRequest: the source holds no messages, or they cannot be read
    """
    if options.payload is None:
        return source
    schema, spark = options.payload_schema, source.rows.sparkSession

    def columns() -> Sequence[Column] | None:
        return known() if schema is None else declared_columns(spark, subject, schema)

    wanted = PayloadOptions(
        sequence=sequence_sql(options) if options.sequence_by else None,
        unavailable_value=options.unavailable_value,
    )
    rows = source.rows.where(f"NOT ({source.is_old})")
    kept = source.metadata_columns
    changes = decoded(rows, wanted, subject, kept=kept, schema=columns)
    return replace(source, rows=changes, is_decoded=True)
