"""Operators that create, change and drop upsert tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.arguments.one_or_several import one_or_several
from airflow_provider_cdc.engine.core.arguments.validation import KEPT, Kept
from airflow_provider_cdc.engine.core.upserts.definition import TOMBSTONE_HORIZON
from airflow_provider_cdc.hooks.failures import task_errors
from airflow_provider_cdc.hooks.registry_reach import check_reach
from airflow_provider_cdc.jobs import upsert_tasks as jobs

from .arguments import parse_duration
from .base import StreamOperator
from .outcome import upsert_table_result

if TYPE_CHECKING:
    from airflow.sdk import Context


class CreateUpsertTable(StreamOperator):
    """Create a table whose changes are upserted by a primary key. BigQuery, CDC: each change is an
    UPSERT or a DELETE of one key.

    Returns (XCom) ``table``, ``location``, ``stream``, ``primary_key`` and ``max_staleness`` in
    seconds.

    :param table: the name of the table, or a path (templated)
    :param schema: the data columns in DDL, such as ``id INT, name STRING`` (templated)
    :param primary_key: one column, or up to 16 columns (templated)
    :param max_staleness: how far a read may lag behind what was written, as ``INTERVAL 10 MINUTE``,
        ``PT10M`` or a ``timedelta``; ``None``: every read is fresh (templated)
    :param tombstone_horizon: how long a delete is remembered for late changes, in the same forms
        (templated)
    :param cluster_by: the columns that the base is clustered by; by default the first 4 columns of
        the key (templated)
    :param partial_changes: whether a change may leave columns unchanged
    :param if_not_exists: if the upsert table exists already, return it unchanged. Set it for a task
        with retries, because a retry then finishes what a killed attempt began
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "table",
        "schema",
        "primary_key",
        "max_staleness",
        "tombstone_horizon",
        "cluster_by",
        "conn_id",
    )

    def __init__(
        self,
        *,
        table: str,
        schema: str,
        primary_key: str | Sequence[str],
        max_staleness: timedelta | str | None = None,
        tombstone_horizon: timedelta | str = TOMBSTONE_HORIZON,
        cluster_by: str | Sequence[str] | None = None,
        partial_changes: bool = False,
        if_not_exists: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.schema = schema
        self.primary_key = primary_key
        self.max_staleness = max_staleness
        self.tombstone_horizon = tombstone_horizon
        self.cluster_by = cluster_by
        self.partial_changes = partial_changes
        self.if_not_exists = if_not_exists

    def execute(self, context: Context) -> dict[str, Any]:
        """Create the table, or return the existing one.

        :raises AirflowFailException: the schema, the key or an interval is invalid, or there is a
            table of that name
        :raises CdcJobFailed: a retry may help, for example if the state folder cannot be reached
        """
        subject, clustered = f"upsert table {self.table}", self.cluster_by
        with task_errors():
            horizon = parse_duration(self.tombstone_horizon, "tombstone_horizon")
            task = jobs.CreateUpsertTable(
                self.table,
                self.schema,
                one_or_several(subject, "primary_key", self.primary_key),
                parse_duration(self.max_staleness, "max_staleness"),
                TOMBSTONE_HORIZON if horizon is None else horizon,
                None if clustered is None else one_or_several(subject, "cluster_by", clustered),
                self.partial_changes,
                self.if_not_exists,
            )
        check_reach(self.hook)
        return upsert_table_result(self.hook.submit(task, context=context).upsert_table)


class AlterUpsertTable(StreamOperator):
    """Change the intervals of an upsert table. An interval that is not given stays unchanged.

    The DAG that applies its changes and its alerts use the new intervals.

    :param table: the upsert table (templated)
    :param max_staleness: as for :class:`CreateUpsertTable`; ``None``: every read is fresh
        (templated)
    :param tombstone_horizon: as for :class:`CreateUpsertTable` (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "max_staleness", "tombstone_horizon", "conn_id")

    def __init__(
        self,
        *,
        table: str,
        max_staleness: timedelta | str | Kept | None = KEPT,
        tombstone_horizon: timedelta | str | Kept = KEPT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.max_staleness = max_staleness
        self.tombstone_horizon = tombstone_horizon

    def execute(self, context: Context) -> None:
        """Alter the table. A retry finishes what an attempt began.

        :raises AirflowFailException: an interval is invalid, or there is no such upsert table
        :raises CdcJobFailed: a retry may help, for example if changes are being applied
        """
        with task_errors():
            staleness = parse_duration(self.max_staleness, "max_staleness")
            horizon = parse_duration(self.tombstone_horizon, "tombstone_horizon")
            task = jobs.AlterUpsertTable(
                self.table,
                None if isinstance(staleness, Kept) else staleness,
                keeps_max_staleness=isinstance(staleness, Kept),
                tombstone_horizon=None if isinstance(horizon, Kept) else horizon,
            )
        self.hook.submit(task, context=context)


class AddColumns(StreamOperator):
    """Add columns to an upsert table and to its view.

    The new columns are NULL in existing rows and in waiting changes. Existing columns stay
    unchanged. Returns (XCom) the same as :class:`CreateUpsertTable`.

    :param table: the upsert table (templated)
    :param schema: the columns in DDL, such as ``phone STRING, since DATE`` (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "schema", "conn_id")

    def __init__(self, *, table: str, schema: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.schema = schema

    def execute(self, context: Context) -> dict[str, Any]:
        """Add the columns. A retry finishes what an attempt began.

        :raises AirflowFailException: the schema is invalid, the table has a column of that name
            with another type, or there is no such upsert table
        :raises CdcJobFailed: a retry may help
        """
        task = jobs.AddColumns(self.table, self.schema)
        return upsert_table_result(self.hook.submit(task, context=context).upsert_table)


class DropUpsertTable(StreamOperator):
    """Drop an upsert table: its view, the stream of its changes, and its rows.

    :param table: the upsert table (templated)
    :param if_exists: a missing table is not an error. Set it for a task with retries, because a
        killed attempt may have dropped the table
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "conn_id")

    def __init__(self, *, table: str, if_exists: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.if_exists = if_exists

    def execute(self, context: Context) -> None:
        """Drop the table. A retry finishes what an attempt began.

        :raises AirflowFailException: there is no such upsert table
        :raises CdcJobFailed: a retry may help, for example if changes are being applied
        """
        self.hook.submit(jobs.DropUpsertTable(self.table, self.if_exists), context=context)
