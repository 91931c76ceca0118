"""What the lineage of a task needs from its job: columns, locations and versions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_cdc import engine as cdc
from airflow_provider_cdc.engine.core.delta.table_schema import Layout
from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.names import table_name
from airflow_provider_cdc.engine.spark.tables.delta_tables import Tables
from airflow_provider_cdc.engine.storage.files.stores import Files

from .model import Answer, Export, ExportChanges, ExportFormat, ExportTable, Lineage, Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_cdc.engine import Outcome
    from airflow_provider_cdc.engine.core.model.stream import Stream
    from airflow_provider_cdc.engine.core.model.tables import Table

log = logging.getLogger(__name__)


def with_lineage(
    request: Request,
    answer: Answer,
    spark: SparkSession,
    storage_options: Mapping[str, str] | None,
) -> Answer:
    """``answer`` with what its lineage needs, if ``request`` wants it.

    It is left out if it cannot be determined: the work is done, and no lineage is worth a failure.
    """
    if not request.wants_lineage or answer.error:
        return answer
    try:
        task = request.task
        if isinstance(task, ExportChanges | ExportTable):
            tables = Tables(spark, Files(storage_options))
            return replace(answer, lineage=_of_export(task, spark, tables))
        streams = _streams(request, answer, storage_options)
        consumptions = tuple(
            replace(each, lineage=_of_outcomes([each.outcome], streams, spark))
            if each.outcome is not None
            else each
            for each in answer.consumptions
        )
        outcomes = [] if answer.outcome is None else [answer.outcome]
        outcomes += [] if answer.archived is None else answer.archived.batches
        lineage = _of_outcomes(outcomes, streams, spark) if outcomes else None
        return replace(answer, consumptions=consumptions, lineage=lineage)
    except Exception as error:
        log.warning("Lineage has no columns: %s: %s", type(error).__name__, error)
        return answer


def _streams(
    request: Request, answer: Answer, storage_options: Mapping[str, str] | None
) -> dict[str, Stream]:
    """The streams that are on one table, by their ids, if something was consumed."""
    if answer.outcome is None and answer.archived is None and not answer.consumptions:
        return {}
    catalog = cdc.StreamCatalog(
        request.state, storage_options=storage_options, principal=request.principal
    )
    return {
        each.stream_id: each
        for each in catalog.list_streams()
        if each.view is None and each.folder is None
    }


def _of_outcomes(
    outcomes: Sequence[Outcome], streams: Mapping[str, Stream], spark: SparkSession
) -> Lineage:
    read = {each.stream_id for outcome in outcomes for each in outcome.streams}
    targets = {each.location for outcome in outcomes for each in outcome.statements}
    return Lineage(
        {
            streams[each].name: Layout.of(streams[each].offset.metadata).column_names
            for each in read & streams.keys()
        },
        {location: _columns(spark, location) for location in targets if location},
    )


def _of_export(task: Export, spark: SparkSession, tables: Tables) -> Lineage:
    name = task.table if isinstance(task, ExportTable) else task.name
    source = _found(tables, name)
    target = _found(tables, task.target) if task.format is ExportFormat.DELTA else None
    known = [table.location for table in (source, target) if table is not None]
    return Lineage(
        tables={location: _columns(spark, location) for location in known},
        source=None if source is None else source.location,
        target=task.target if target is None else target.location,
        target_version=None if target is None else tables.newest_offset(target).version,
    )


def _found(tables: Tables, name: str) -> Table | None:
    """The Delta table of that name; ``None``: it is a view, or is not there."""
    try:
        return tables.find(table_name(name))
    except CdcError:
        return None


def _columns(spark: SparkSession, location: str) -> tuple[str, ...]:
    return tuple(spark.read.format("delta").load(location).columns)
