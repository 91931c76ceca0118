"""Write changes, or the rows of an upsert table, to a table or to files."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from airflow_provider_cdc.engine.core.arguments.points import point_of
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.names import quote, table_name
from airflow_provider_cdc.engine.spark.session.idempotent_writes import (
    idempotent_write,
    marked_commit,
    plain_write,
)
from airflow_provider_cdc.engine.spark.session.session_settings import settings
from airflow_provider_cdc.engine.spark.tables.store_assignment import StoreAssignment

from .model import Export, ExportChanges, ExportFormat, ExportMode, ExportTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_cdc.engine import Engine
    from airflow_provider_cdc.engine.spark.tables.delta_tables import Tables

_VERSION = 1
# An overwrite replaces the whole target, and not only the partitions that have new rows.
_WHOLE = {"spark.sql.sources.partitionOverwriteMode": "static"}


def export(task: Export, engine: Engine, spark: SparkSession, tables: Tables) -> None:
    """Write what ``task`` names to its target."""
    if isinstance(task, ExportTable):
        export_table(task, engine, spark, tables)
    else:
        export_changes(task, engine, spark, tables)


def export_changes(
    task: ExportChanges, engine: Engine, spark: SparkSession, tables: Tables
) -> None:
    """Write the changes that ``task`` names to its target.

    A Delta table is created if it does not exist. A second append with the same ``export_id``
    writes nothing. With the mode ``error``, the table may exist only if the same ``export_id``
    created it.

    :raises InvalidRequest: the table exists and the mode is ``error``, or its columns do not fit
    :raises CdcError: the errors of ``Engine.changes``
    """
    changes = engine.changes(
        task.name,
        at=point_of(task.at),
        before=point_of(task.before),
        end=point_of(task.end),
        information=task.information,
        column_style=task.column_style,
    )
    _write(task, changes, spark, tables)


def export_table(task: ExportTable, engine: Engine, spark: SparkSession, tables: Tables) -> None:
    """Write the rows of the upsert table that ``task`` names to its target.

    The history of the table records this as a job. Targets and modes work as in
    :func:`export_changes`.

    :raises InvalidRequest: the target exists and the mode is ``error``, or its columns do not fit
    :raises CdcError: the errors of ``Engine.query_upsert_table``
    """
    engine.query_upsert_table(task.table, lambda rows: _write(task, rows, spark, tables))


def _write(task: Export, rows: DataFrame, spark: SparkSession, tables: Tables) -> None:
    if task.format is ExportFormat.DELTA:
        _write_table(task, rows, spark, tables)
    else:
        mode = "overwrite" if task.mode is ExportMode.OVERWRITE else "error"
        rows.write.format(task.format.value).mode(mode).save(task.target)


def _write_table(task: Export, rows: DataFrame, spark: SparkSession, tables: Tables) -> None:
    target = table_name(task.target)
    known_by = f"cdc/export/{task.export_id}"
    if tables.find(target) is None:
        empty = rows.limit(0).write.format("delta").mode("ignore")
        with marked_commit(spark, known_by):
            if target.path is None:
                empty.saveAsTable(target.sql)
            else:
                empty.save(target.path)
    # The table may exist because an attempt created it and was then killed.
    if task.mode is ExportMode.ERROR and tables.creation_mark(tables.get(target)) != known_by:
        raise InvalidRequest(
            f"export to {task.target}",
            "would write to a table that exists",
            cause="its mode is error",
            fix="name another table, or set mode to append or overwrite",
        )
    assignment = StoreAssignment(
        spark,
        f"export to {task.target}",
        "cannot write its rows to this table",
        "name another table, or alter the columns of this one",
    )
    stored = assignment.rows(rows, spark.table(target.sql).schema)
    view = f"cdc_export_{uuid.uuid4().hex}"
    stored.createOrReplaceTempView(view)
    try:
        columns = ", ".join(map(quote, stored.columns))
        insert = f"{target.sql} ({columns}) SELECT {columns} FROM {quote(view)}"
        if task.mode is ExportMode.OVERWRITE:
            with plain_write(spark), settings(spark, _WHOLE):
                spark.sql(f"INSERT OVERWRITE {insert}")
        else:
            with idempotent_write(spark, known_by, _VERSION):
                spark.sql(f"INSERT INTO {insert}")
    finally:
        spark.catalog.dropTempView(view)
