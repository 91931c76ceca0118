"""The task of a consumption, made and checked in the worker, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.arguments.one_or_several import one_or_several
from airflow_provider_cdc.engine.core.consumption.batches import BatchLimit
from airflow_provider_cdc.engine.core.errors import InvalidStatement
from airflow_provider_cdc.engine.core.names import stream_key
from airflow_provider_cdc.engine.core.sql.statements import analyse, plan_streams
from airflow_provider_cdc.jobs.functions import check_consume
from airflow_provider_cdc.jobs.model import ConsumeStream

from .arguments import parse_int


def consumption_task(
    *,
    stream: Any,
    sql: Any = None,
    apply: Any = None,
    consumer: str | Callable[[tuple[str, ...]], str],
    max_commits: Any = None,
    max_bytes: Any = None,
) -> ConsumeStream:
    """The task of one consumption, from the arguments of an operator.

    :param consumer: the consumer, or what names it by the streams
    :raises InvalidRequest: the arguments do not make a consumption
    """
    limit = BatchLimit(parse_int(max_commits), parse_int(max_bytes))
    streams = one_or_several("consumption", "stream", stream)
    task = ConsumeStream(
        one_or_several("consumption", "sql", sql or ()),
        consumer(streams) if callable(consumer) else consumer,
        limit.max_commits,
        limit.max_bytes,
        apply,
        streams,
    )
    check_consume(task)
    return task


def streams_read(
    task: ConsumeStream, registered: Collection[str], catalog: StreamCatalog
) -> tuple[str, ...]:
    """The streams that ``task`` reads, as they are registered.

    :param registered: the names of all registered streams
    :raises StreamNotFound: there is no stream of a name in ``task``
    :raises InvalidStatement: a statement cannot consume, or no statement reads a stream that
        ``task`` names
    """
    by_key = {stream_key(name): name for name in registered}
    if not by_key.keys() >= {stream_key(name) for name in task.streams}:
        # This call names the missing stream, and similar ones.
        catalog.registered(task.streams)
    expected = tuple(by_key[stream_key(name)] for name in task.streams)
    if task.apply is not None:
        return expected
    read = plan_streams([analyse(text, registered) for text in task.statements], registered)
    if unread := [name for name in expected if name not in read]:
        raise InvalidStatement(
            f"stream {', '.join(unread)}",
            "is not read by any statement",
            cause=f"the statements read {', '.join(read)}",
            fix="set the argument stream to the streams that the statements read",
        )
    return read
