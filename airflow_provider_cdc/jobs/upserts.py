"""Run the jobs of upsert tables on an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_cdc.engine.core.arguments.validation import KEPT
from airflow_provider_cdc.engine.core.sql.stream_queries import only_query

from .model import Answer
from .upsert_tasks import (
    AddColumns,
    AlterUpsertTable,
    ApplyUpserts,
    CreateUpsertTable,
    DropUpsertTable,
    RedriveChanges,
    UpsertTask,
    WriteChanges,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_cdc.engine import Engine


def upsert_answer(request_id: str, task: UpsertTask, engine: Engine, spark: SparkSession) -> Answer:
    """Run ``task`` for an upsert table.

    :raises CdcError: the errors of the engine's method
    """
    match task:
        case CreateUpsertTable():
            table = engine.create_upsert_table(
                task.table,
                task.schema,
                task.primary_key,
                max_staleness=task.max_staleness,
                tombstone_horizon=task.tombstone_horizon,
                cluster_by=task.cluster_by,
                partial_changes=task.partial_changes,
                if_not_exists=task.if_not_exists,
            )
            return Answer(request_id, upsert_table=table)
        case AlterUpsertTable():
            horizon = task.tombstone_horizon
            engine.alter_upsert_table(
                task.table,
                max_staleness=KEPT if task.keeps_max_staleness else task.max_staleness,
                tombstone_horizon=KEPT if horizon is None else horizon,
            )
            return Answer(request_id)
        case AddColumns():
            table = engine.add_columns(task.table, task.schema)
            return Answer(request_id, upsert_table=table)
        case DropUpsertTable():
            engine.drop_upsert_table(task.table, if_exists=task.if_exists)
            return Answer(request_id)
        case WriteChanges():
            written = engine.write_changes(
                task.table,
                spark.sql(only_query(task.query)),
                write_id=task.write_id,
                on_bad_rows=task.on_bad_rows,
                payload=task.payload,
                sequence_by=task.sequence_by,
                unavailable_value=task.unavailable_value,
            )
            return Answer(request_id, written=written)
        case RedriveChanges():
            redriven = engine.redrive_changes(task.table, late=task.late)
            return Answer(request_id, redriven=redriven)
        case ApplyUpserts():
            return Answer(request_id, outcome=engine.apply_upserts(task.table))
