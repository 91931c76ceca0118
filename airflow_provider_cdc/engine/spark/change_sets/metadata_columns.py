"""The columns of a change set as users see them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from ...core.errors import InvalidRequest
from ...core.model.sources import ROW_ID_MARK
from ...core.model.stream import METADATA_COLUMNS, ColumnStyle, MetadataColumns, Stream
from ...core.names import first_alike, name_key, quote
from .netting import ACTION, IS_UPDATE
from .row_columns import ROW, ROW_ID, ROW_VERSION

# The text form of Delta's row ids.
NUMBER_AS_TEXT = f"lower(hex({ROW_ID} | {ROW_ID_MARK}L))"


def with_metadata_columns(
    changes: DataFrame,
    columns: Sequence[str] | None,
    style: ColumnStyle,
    row_id: str = NUMBER_AS_TEXT,
) -> DataFrame:
    """``changes`` with the columns of the row, then action, is-update and row id.

    :param columns: the names of the row's columns; ``None``: the names of its fields, which costs
        less if there are many
    :param row_id: the expression of the row id
    """
    names = METADATA_COLUMNS[style]
    shown = [f"{ROW}.*"]
    if columns is not None:
        shown = [f"{ROW}.{name} AS {name}" for name in map(quote, columns)]
    return changes.selectExpr(
        *shown,
        f"{ACTION} AS {quote(names.action)}",
        f"{IS_UPDATE} AS {quote(names.is_update)}",
        f"{row_id} AS {quote(names.row_id)}",
    )


def each_named(
    rows: DataFrame, action: str, style: ColumnStyle, row_id: str = NUMBER_AS_TEXT
) -> DataFrame:
    """Each of ``rows`` as one change that is not an update, with the column names that
    :func:`with_metadata_columns` gives.

    :param rows: the columns of a table, with their row id, and their row commit version if they
        have it
    """
    names = METADATA_COLUMNS[style]
    changes = rows.selectExpr(
        "*",
        f"'{action}' AS {quote(names.action)}",
        f"false AS {quote(names.is_update)}",
        f"{row_id} AS {quote(names.row_id)}",
    )
    return changes.drop(ROW_ID, ROW_VERSION)


def number_of(names: MetadataColumns) -> str:
    """The expression of Delta's row id, a number, in a change set of a table."""
    return f"CAST(conv(substring({quote(names.row_id)}, 2), 16, 10) AS BIGINT)"


def check_names(stream: Stream, columns: Sequence[str], also: Sequence[str] = ()) -> None:
    """Refuse a source with a column whose name a change set needs, or with two columns that Spark
    treats as one when they are fields of a struct.

    :param columns: the names of the source's columns
    :param also: further names that it must not have
    :raises InvalidRequest: names the column
    """
    if alike := first_alike(columns):
        raise InvalidRequest(
            f"stream {stream.name}",
            f"cannot read the columns of {stream.table_on}",
            cause=f"Spark treats {alike[0]} and {alike[1]} as the same field of a row",
            fix="rename one of them",
        )
    names = METADATA_COLUMNS[stream.column_style]
    check_free(
        stream,
        columns,
        (names.action, names.is_update, names.row_id),
        fix="rename that column, or create the stream with the other column style",
    )
    check_free(stream, columns, also)


def check_free(
    stream: Stream,
    columns: Sequence[str],
    reserved: Sequence[str],
    fix: str = "rename that column",
) -> None:
    """Refuse a source if one of the ``columns`` has a ``reserved`` name.

    :param fix: what the user can do about it
    :raises InvalidRequest: names the column
    """
    taken = set(map(name_key, reserved))
    for column in columns:
        if name_key(column) in taken:
            raise InvalidRequest(
                f"stream {stream.name}",
                f"cannot add its columns to those of {stream.table_on}",
                cause=f"the source already has a column {column}",
                fix=fix,
            )
