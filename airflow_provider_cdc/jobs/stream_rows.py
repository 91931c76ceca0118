"""Hand back rows of the change set of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from .model import ReadStream, StreamRows

if TYPE_CHECKING:
    from airflow_provider_cdc.engine import Engine

_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def stream_rows(engine: Engine, task: ReadStream) -> StreamRows:
    """The rows that ``task`` asks for. They have no order, and no offset moves.

    :raises CdcError: the errors of ``Engine.read_stream``
    """
    found = engine.read_stream(task.stream).limit(task.limit)
    rows = found.select(F.to_json(F.struct("*"), _JSON)).collect()
    return StreamRows(tuple(found.columns), tuple(row[0] for row in rows))
