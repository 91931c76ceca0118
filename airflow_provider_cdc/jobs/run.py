"""Run one request on a Spark session: the driver's side of every job.

The entry point of spark-submit calls it. A task calls it on a session over Spark Connect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from airflow_provider_cdc import engine as cdc
from airflow_provider_cdc.engine.core.arguments.points import point_of
from airflow_provider_cdc.engine.spark.session.folder_reach import reached
from airflow_provider_cdc.engine.spark.tables.delta_tables import Tables
from airflow_provider_cdc.engine.storage.files.stores import Files

from .answer_lines import answer_lines
from .archives import archive_answer
from .change_stream_tasks import ChangeStreamTask
from .change_streams import change_stream_answer
from .consumptions import consume, consume_each
from .export import export
from .history import history_answer
from .job_errors import job_error
from .lineage import with_lineage
from .model import (
    AbortConsumption,
    Answer,
    ArchiveChanges,
    CheckReach,
    ConsumeStream,
    ConsumeStreams,
    CreateStream,
    EnableChangeTracking,
    ExportChanges,
    ExportTable,
    HistoryTask,
    MaintainStreams,
    OneTask,
    ReadStream,
    RecoverStream,
    Request,
    RewindStream,
    StreamHasData,
    VerifyTarget,
)
from .slot_meter import slot_meter
from .stream_rows import stream_rows
from .upsert_tasks import UpsertTask
from .upserts import upsert_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_cdc.engine import Engine

log = logging.getLogger(__name__)


def run(
    request: Request,
    spark: SparkSession,
    storage_options: Mapping[str, str] | None = None,
    *,
    new_session: Callable[[], SparkSession] | None = None,
) -> Answer:
    """Run ``request`` with the engine on ``spark``. An error becomes part of the answer.

    An error of the engine is logged as lines. An unexpected error is logged with its traceback.
    Only an exception that ends the process is raised.

    :param new_session: makes a session with the settings of ``spark``, and with views and further
        settings of its own, for work that runs at the same time; by default ``spark.newSession``,
        which a session over Spark Connect does not have
    """
    try:
        if isinstance(request.task, ConsumeStreams):
            found = consume_each(
                request.task,
                _stream_names(request, storage_options),
                lambda: _engine(request, (new_session or spark.newSession)(), storage_options),
            )
            answer = Answer(request.request_id, consumptions=found)
        else:
            engine = _engine(request, spark, storage_options)
            answer = _answer(request, request.task, engine, spark, storage_options)
        for line in answer_lines(request, answer):
            log.info("%s", line)
        return with_lineage(request, answer, spark, storage_options)
    except Exception as error:
        return Answer(request.request_id, job_error(error, f"The {request.job} job"))


def _engine(
    request: Request, spark: SparkSession, storage_options: Mapping[str, str] | None
) -> Engine:
    return cdc.Engine(
        spark,
        state=request.state,
        storage_options=dict(storage_options or {}),
        principal=request.principal,
        slot_meter=slot_meter(spark),
    )


def _stream_names(request: Request, storage_options: Mapping[str, str] | None) -> list[str]:
    catalog = cdc.StreamCatalog(
        request.state, storage_options=storage_options, principal=request.principal
    )
    _, names = catalog.registered(())
    return names


def _answer(
    request: Request,
    task: OneTask,
    engine: Engine,
    spark: SparkSession,
    storage_options: Mapping[str, str] | None,
) -> Answer:
    match task:
        case CreateStream():
            stream = engine.create_stream(**task.spec.arguments)
            return Answer(request.request_id, stream=stream)
        case ConsumeStream():
            return Answer(request.request_id, outcome=consume(engine, task))
        case StreamHasData() | ReadStream():
            return _answer_that_reads(request.request_id, task, engine)
        case CheckReach():
            found_reach = reached(request.state, spark, Files(storage_options))
            return Answer(request.request_id, reached=found_reach)
        case ExportChanges() | ExportTable():
            export(task, engine, spark, Tables(spark, Files(storage_options)))
            return Answer(request.request_id)
        case MaintainStreams():
            found = engine.maintain_streams(ahead=task.ahead)
            return Answer(request.request_id, maintenance=found)
        case RecoverStream():
            outcome = engine.recover_stream(
                task.stream, task.target, task.key, consumer=task.consumer
            )
            return Answer(request.request_id, outcome=outcome)
        case AbortConsumption():
            return Answer(
                request.request_id, stream=engine.abort_consumption(task.stream, keep=task.keep)
            )
        case RewindStream():
            point = point_of(task.to)
            assert point is not None  # a mapping names a point, or is refused
            return Answer(request.request_id, stream=engine.rewind_stream(task.stream, to=point))
        case EnableChangeTracking():
            tracking = engine.enable_change_tracking(
                task.table, row_tracking=task.row_tracking, change_feed=task.change_feed
            )
            return Answer(request.request_id, tracking=tracking)
        case ArchiveChanges() | VerifyTarget():
            return archive_answer(request.request_id, task, engine)
        case _:
            return _answer_about_tables(request.request_id, task, engine, spark)


def _answer_that_reads(request_id: str, task: StreamHasData | ReadStream, engine: Engine) -> Answer:
    if isinstance(task, ReadStream):
        return Answer(request_id, rows=stream_rows(engine, task))
    return Answer(request_id, has_data=engine.stream_has_data(task.stream, exact=True))


def _answer_about_tables(
    request_id: str,
    task: HistoryTask | ChangeStreamTask | UpsertTask,
    engine: Engine,
    spark: SparkSession,
) -> Answer:
    if isinstance(task, HistoryTask):
        return history_answer(request_id, task, engine)
    if isinstance(task, ChangeStreamTask):
        return change_stream_answer(request_id, task, engine)
    return upsert_answer(request_id, task, engine, spark)
