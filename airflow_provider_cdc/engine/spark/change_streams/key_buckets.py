"""The bucket of a key that a caller names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.watches import WatchedTable
from ...core.delta.table_schema import Layout, physical_name
from ...core.errors import InvalidRequest
from ...core.names import name_key
from ...core.shown_values import shown
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ..change_sets.columns import spark_fields
from .captured_rows import CapturedTable
from .literal_rows import one_row


@dataclass(frozen=True, slots=True)
class KeyBuckets:
    """Finds the buckets of keys in the tables of change streams."""

    spark: SparkSession
    files: Files

    def bucket_of(self, stream: ChangeStream, table: str | None, key: Mapping[str, Any]) -> int:
        """The bucket of a key.

        :param table: the name of its table; ``None``: the change stream has only one
        :param key: the value of each column of the key
        :raises InvalidRequest: there is no such table or key, or a value has another type
        """
        watched = _table(stream, table)
        metadata = DeltaLog(watched.source.location, self.files).newest_state().metadata
        layout = Layout.of(metadata)
        kinds = {
            field.name: field.dataType
            for given, field in zip(layout.fields, spark_fields(layout.fields), strict=True)
            if physical_name(given) in watched.keys
        }
        values = {name_key(name): value for name, value in key.items()}
        if not kinds or set(values) != set(map(name_key, kinds)):
            raise _refused(
                stream,
                f"the key of {watched.name} is {', '.join(kinds) or 'its row id'}, found"
                f" {', '.join(key) or 'nothing'}",
                f"write at={{{', '.join(f'{name!r}: ...' for name in kinds)}}}"
                if kinds
                else "leave at out",
            )
        found = CapturedTable(watched, layout, (), stream.layout, stream.settings)
        try:
            columns = (F.lit(values[name_key(name)]).cast(kind) for name, kind in kinds.items())
            named = (column.alias(name) for column, name in zip(columns, kinds, strict=True))
            row = one_row(self.spark).select(*named)
            ((bucket,),) = row.select(found.bucket).collect()
        except (PySparkException, TypeError, ValueError) as error:
            raise _refused(
                stream,
                f"{shown(dict(key))} is not a key of {watched.name}: {str(error).splitlines()[0]}",
                "pass values of the types of the columns",
            ) from None
        return int(bucket)


def _table(stream: ChangeStream, name: str | None) -> WatchedTable:
    found = [table for table in stream.tables if name in (None, table.name)]
    if len(found) != 1:
        names = ", ".join(table.name for table in stream.tables)
        raise _refused(
            stream, f"it watches {names}, found table={name!r}", "pass table= with one of these"
        )
    return found[0]


def _refused(stream: ChangeStream, cause: str, fix: str) -> InvalidRequest:
    return InvalidRequest(
        stream.subject, "cannot split a partition at this key", cause=cause, fix=fix
    )
