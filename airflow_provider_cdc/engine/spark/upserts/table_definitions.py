"""Create and alter upsert tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ...core.arguments.intervals import interval_if_given, interval_of
from ...core.arguments.one_or_several import one_or_several
from ...core.arguments.validation import Kept
from ...core.delta.columns import Column
from ...core.errors import InvalidRequest, TableExists
from ...core.names import name_key, quote, table_name
from ...core.upserts.change_rows import BATCH, INGESTED_AT, ORDER, REASON, SEQUENCE, SINCE
from ...core.upserts.definition import (
    CHANGE_SEQUENCE_NUMBER,
    CHANGE_TYPE,
    CHANGE_UNCHANGED,
    HORIZON,
    MAX_STALENESS,
    STATE,
    UpsertTable,
    check_lengths,
    checked_columns,
    checked_properties,
    clustered_by,
    is_wide,
)
from ...core.upserts.diversion import KEY_HASH, QUARANTINED_AT, REDRIVE
from ...core.upserts.merge_sql import live_rows
from ..session.failures import first_line, has_ended
from ..session.session_settings import escaped_literals
from ..tables.delta_tables import Tables, table_properties
from ..tables.shown_views import ShownViews
from ..tables.sql_types import declared_columns, sql_type
from .upsert_tables import UpsertTables, base_name

_STATE_FIELDS = "sequence: STRING, deleted_at: TIMESTAMP_LTZ"
_PARTIAL_FIELDS = f"{_STATE_FIELDS}, older: MAP<STRING, STRING>"
# These columns come before the data columns, so that Delta keeps statistics of them.
_PLACE_COLUMNS = (
    f"{CHANGE_TYPE} STRING",
    f"{CHANGE_SEQUENCE_NUMBER} STRING",
    f"{CHANGE_UNCHANGED} ARRAY<STRING>",
    f"{BATCH} STRING NOT NULL",
    f"{ORDER} BIGINT NOT NULL",
    f"{SINCE} STRING",
    f"{INGESTED_AT} TIMESTAMP_LTZ NOT NULL",
    f"{REASON} STRING",
)
_CHANGE_COLUMNS = (*_PLACE_COLUMNS, f"{SEQUENCE} STRING NOT NULL")
_QUARANTINE_COLUMNS = (*_PLACE_COLUMNS, f"{QUARANTINED_AT} TIMESTAMP_LTZ", f"{REDRIVE} STRING")
_DELETE_COLUMNS = (f"{KEY_HASH} BIGINT NOT NULL", f"{SEQUENCE} STRING NOT NULL")
# Without deletion vectors a MERGE rewrites every file in which it finds a key.
_BASE_PROPERTIES = {"delta.enableDeletionVectors": "true"}
# The change data feed has a column with the same name as CHANGE_TYPE, except for the case.
_WITHOUT_FEED = {"delta.enableChangeDataFeed": "false"}
_QUARANTINE_PROPERTIES = _BASE_PROPERTIES | _WITHOUT_FEED
# In-commit timestamps show when a change was ingested. A wrong clock cannot reverse their order.
_CHANGE_PROPERTIES = _WITHOUT_FEED | {
    "delta.enableRowTracking": "true",
    "delta.enableInCommitTimestamps": "true",
}


class TableDefinitions:
    """Creates and alters upsert tables.

    :param create_changes_stream: creates the stream on the changes of a table, if it does not exist
    """

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        found: UpsertTables,
        create_changes_stream: Callable[[UpsertTable], None],
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._views = ShownViews(spark)
        self._found = found
        self._create_changes_stream = create_changes_stream

    def create(
        self,
        name: str,
        schema: StructType | str,
        primary_key: Sequence[str],
        *,
        max_staleness: timedelta | str | None,
        tombstone_horizon: timedelta | str,
        cluster_by: str | Collection[str] | None,
        partial_changes: bool,
        if_not_exists: bool,
    ) -> UpsertTable:
        """Create an upsert table, or finish what a killed call began."""
        columns = self._columns_of(name, schema)
        named = one_or_several(f"upsert table {name}", "primary_key", primary_key)
        key = checked_columns(name, columns, named)
        wanted = UpsertTable(
            name,
            base_name(name),
            location="",
            table_id="",
            columns=columns,
            primary_key=key,
            max_staleness=interval_if_given(max_staleness, "max_staleness"),
            tombstone_horizon=interval_of(tombstone_horizon, "tombstone_horizon"),
            has_partial_changes=partial_changes,
        )
        if partial_changes and not wanted.values:
            raise InvalidRequest(
                f"upsert table {name}",
                "has no column that a change can leave unchanged",
                cause="all its columns are in the primary key",
                fix="create it without partial_changes",
            )
        clustered = clustered_by(name, columns, key, cluster_by)
        self._check_view(wanted)
        if self._tables.find(wanted.base) is None:
            self._create_base(wanted, clustered)
        elif not if_not_exists:
            raise TableExists(
                f"table {name}",
                "exists already",
                cause=f"expected no table {wanted.base.sql}, found one",
                fix="choose another name, drop it, or pass if_not_exists=True",
            )
        self._complete(self._found.find(name))
        return self._found.get(name)

    def alter(
        self, table: UpsertTable, longest: timedelta | Kept | None, horizon: timedelta | Kept
    ) -> None:
        """Change how stale a table may be, and how long it remembers deletes.

        :param longest: the new ``max_staleness``; ``None``: every read is fresh
        :param horizon: the new ``tombstone_horizon``
        :raises InvalidRequest: the new values would be read back differently
        """
        altered, changed = table, []
        if not isinstance(longest, Kept):
            altered = replace(altered, max_staleness=longest)
            changed.append(MAX_STALENESS)
        if not isinstance(horizon, Kept):
            altered = replace(altered, tombstone_horizon=horizon)
            changed.append(HORIZON)
        properties = checked_properties(altered)
        self._tables.set_properties(
            table.base.sql, {name: properties.get(name) for name in changed}
        )

    def add_columns(self, name: str, schema: StructType | str) -> UpsertTable:
        """Add columns to an upsert table, in each of its parts that lacks them."""
        table, wanted = self._found.whole(name), self._columns_of(name, schema)
        parts = {
            # The base comes last. Before it is altered, no change has a value in the new columns.
            # After it is altered, every read of changes includes the new columns.
            place: {name_key(column.name): column for column in self._found.columns_at(place)}
            for place in (table.quarantine, table.changes, table.location)
        }
        known = parts[table.location]
        added = [column for column in wanted if name_key(column.name) not in known]
        checked_columns(name, (*known.values(), *added), table.primary_key)
        for place, found in parts.items():
            for column in wanted:
                there = found.get(name_key(column.name), column)
                if there.type != column.type:
                    raise InvalidRequest(
                        f"upsert table {name}",
                        f"cannot be given a column {column.name}",
                        cause=f"expected none, or one of type {column.type}, found {there.name}"
                        f" {there.type} in {place}",
                        fix="choose another name; no part of the table was altered",
                    )
        for place, found in parts.items():
            missing = [column for column in wanted if name_key(column.name) not in found]
            if missing:
                self._alter(name, place, f"ADD COLUMNS ({', '.join(_definitions(missing))})")
        altered = self._found.get(name)
        self._show(altered)
        return altered

    def _alter(self, name: str, place: str, change: str) -> None:
        try:
            self._spark.sql(f"ALTER TABLE delta.{quote(place)} {change}")
        except AnalysisException as error:
            # If the columns are wrong, Spark already refuses the first part. No part is altered.
            raise InvalidRequest(
                f"upsert table {name}",
                "cannot be given these columns",
                cause=first_line(error),
                fix="choose other names or types",
            ) from None

    def _columns_of(self, name: str, schema: StructType | str) -> tuple[Column, ...]:
        check_lengths(name, schema if isinstance(schema, str) else sql_type(schema))
        return declared_columns(self._spark, f"upsert table {name}", schema)

    def _create_base(self, table: UpsertTable, clustered: Sequence[str]) -> None:
        fields = _PARTIAL_FIELDS if table.has_partial_changes else _STATE_FIELDS
        state = [f"{quote(STATE)} STRUCT<{fields}>"]
        # The state column is at a place where Delta keeps statistics. They show whether changes are
        # newer than all rows.
        is_first, data = is_wide(table.columns), _definitions(table.columns)
        columns = [*state, *data] if is_first else [*data, *state]
        cluster = f"CLUSTER BY ({', '.join(map(quote, clustered))})" if clustered else ""
        self._tables.remove_unfinished(table.base.path)
        with escaped_literals(self._spark), _refused_by_spark(table):
            self._spark.sql(
                f"CREATE TABLE {table.base.sql} ({', '.join(columns)}) USING delta {cluster}"
                f" {table_properties(_BASE_PROPERTIES | checked_properties(table))}"
            )

    def _complete(self, table: UpsertTable) -> None:
        """Create the parts of a table, except its base, that do not exist yet."""
        data = _definitions(table.columns)
        for location, columns, properties in (
            (table.quarantine, [*_QUARANTINE_COLUMNS, *data], _QUARANTINE_PROPERTIES),
            (table.deletes, _DELETE_COLUMNS, _BASE_PROPERTIES),
            # The table of changes is created last. If it exists, the upsert table is complete.
            (table.changes, [*_CHANGE_COLUMNS, *data], _CHANGE_PROPERTIES),
        ):
            self._tables.create_at(location, columns, properties)
        self._create_changes_stream(table)
        self._show(table)

    def _show(self, table: UpsertTable) -> None:
        """Create or update the view of a table, so that it has the columns of the table.

        A table at a path has no view.
        """
        named = table_name(table.name)
        if not named.is_path:
            columns = [column.name for column in table.columns]
            self._views.show(named, table.base.sql, columns, live_rows(table))

    def _check_view(self, table: UpsertTable) -> None:
        """Refuse a name that another table or view has."""
        named = table_name(table.name)
        if not named.is_path:
            self._views.check_free(f"table {table.name}", named, table.base.sql)


def _definitions(columns: Iterable[Column]) -> list[str]:
    return [f"{quote(column.name)} {column.type}" for column in columns]


@contextmanager
def _refused_by_spark(table: UpsertTable) -> Iterator[None]:
    """Turn Spark's refusal to create ``table`` into an error of the engine.

    :raises InvalidRequest: Spark refused it
    """
    try:
        yield
    except Exception as error:  # pyspark has no classes for errors of the JVM
        if not has_ended(error):
            raise
        raise InvalidRequest(
            f"upsert table {table.name}",
            "cannot be created",
            cause=first_line(error),
            fix="choose a name or a path that Spark accepts and can write",
        ) from error
