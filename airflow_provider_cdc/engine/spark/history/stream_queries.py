"""The queries that shape what a history target takes."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ...core.errors import InvalidStatement
from ...core.sql.stream_queries import analyse_query, bind_query
from ..session.failures import first_line

_QUERY = "query of apply_changes"


def query_of_stream(spark: SparkSession, stream: str, view: str, query: str) -> DataFrame:
    """The rows of a query that reads a stream by name.

    :param view: the view with the rows of the stream
    :raises InvalidStatement: it does not read the stream, or Spark refuses it
    """
    found = analyse_query(query, [stream])
    if found is None or stream not in found.streams:
        raise InvalidStatement(
            _QUERY,
            f"does not read stream {stream}",
            cause="it is not a SELECT from the stream",
            fix=f"write SELECT ... FROM {stream}",
        )
    return _analysed(spark, bind_query(found, {stream: view}))


def query_of_tables(spark: SparkSession, streams: Collection[str], query: str) -> DataFrame:
    """The rows of a query that reads no stream.

    :param streams: the registered streams
    :raises InvalidStatement: it reads one, or Spark refuses it
    """
    found = analyse_query(query, streams)
    if found is None or found.streams:
        raise InvalidStatement(
            _QUERY,
            "is not a query of tables",
            cause="expected a SELECT that reads no stream"
            if found is None
            else f"it reads stream {found.streams[0]}",
            fix="write SELECT ... FROM a_table, or pass stream='...' too",
        )
    return _analysed(spark, query)


def _analysed(spark: SparkSession, text: str) -> DataFrame:
    try:
        return spark.sql(text)
    except AnalysisException as error:
        raise InvalidStatement(
            _QUERY, "is refused by Spark", cause=first_line(error), fix="correct the query"
        ) from None
