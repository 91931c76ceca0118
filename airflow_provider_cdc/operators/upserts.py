"""The operators of upsert tables: changes are written, and applied later (seed 004)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.choices import member
from airflow_provider_cdc.engine.core.upserts.definition import OnBadRows
from airflow_provider_cdc.engine.upsert_jobs import upsert_stream
from airflow_provider_cdc.hooks.failures import task_errors
from airflow_provider_cdc.jobs import model as jobs

from .stream import ConsumingOperator, StreamOperator, once_for_run

if TYPE_CHECKING:
    from airflow.sdk import Context


class WriteChanges(StreamOperator):
    """Write the rows of a query as changes of an upsert table, once for each run of the DAG.

    Each row has the key, ``_CHANGE_TYPE`` (UPSERT or DELETE), the values and, where there is an
    order, ``_CHANGE_SEQUENCE_NUMBER``. A retry after the write writes nothing; the same task of the
    same run writes again where its query is another one.

    :param table: the upsert table (templated)
    :param query: the SELECT of the changes (templated; ``.sql`` files)
    :param on_bad_rows: ``fail``, and nothing is written, or ``quarantine``, and the other rows are
        (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "query", "on_bad_rows", "conn_id")
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"query": "sql"}

    def __init__(
        self, *, table: str, query: str, on_bad_rows: str = OnBadRows.FAIL.value, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.query = query
        self.on_bad_rows = on_bad_rows

    def execute(self, context: Context) -> None:
        """Write the changes.

        :raises AirflowFailException: a column or a row does not fit; nothing was written
        :raises CdcJobFailed: a retry may help
        """
        # With the query: a task that is cleared after its query was corrected writes again.
        write_id = once_for_run(context, self.table, self.query)
        subject = f"changes of {self.table}"
        with task_errors():
            on_bad_rows = member(subject, "on_bad_rows", OnBadRows, self.on_bad_rows)
        task = jobs.WriteChanges(self.table, self.query, write_id, on_bad_rows)
        self.hook.submit(task, context=context)


class ExportTable(StreamOperator):
    """Write the rows of an upsert table, as fresh as its ``max_staleness`` asks, to a table or to
    files (seed 004, EXPORT DATA).

    Nothing is applied. Changes that have to be merged are merged by this task, so it belongs into a
    pool of its own, such as ``cdc_query``. A task that runs again overwrites, or, where it appends
    to a Delta table, appends once for each run of its DAG.

    :param table: the upsert table (templated)
    :param target: name or path of a Delta table, which is created where there is none; with a
        format of files the URI of a folder (templated)
    :param file_format: ``delta``, ``parquet``, ``csv``, ``json`` or ``orc`` (templated)
    :param mode: ``overwrite``, ``append`` (Delta tables alone) or ``error`` (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "target", "file_format", "mode", "conn_id")

    def __init__(
        self,
        *,
        table: str,
        target: str,
        file_format: str = jobs.ExportFormat.DELTA.value,
        mode: str = jobs.ExportMode.OVERWRITE.value,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.target = target
        self.file_format = file_format
        self.mode = mode

    def execute(self, context: Context) -> None:
        """Export the rows.

        :raises AirflowFailException: an argument is wrong, or there is no such upsert table
        :raises CdcJobFailed: a retry may help
        """
        subject = f"export of {self.table}"
        with task_errors():
            task = jobs.ExportTable(
                self.table,
                self.target,
                once_for_run(context, self.table, self.target),
                member(subject, "file_format", jobs.ExportFormat, self.file_format),
                member(subject, "mode", jobs.ExportMode, self.mode),
            )
        self.hook.submit(task, context=context)


class RedriveChanges(StreamOperator):
    """Let the changes in quarantine of an upsert table that can be applied now wait again.

    Bad ones are corrected in the quarantine before. Returns (XCom) how many were released.

    :param table: the upsert table (templated)
    :param late: those too that came later than a delete is remembered
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "conn_id")

    def __init__(self, *, table: str, late: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.late = late

    def execute(self, context: Context) -> int:
        """Release them; a retry finishes what an attempt began.

        :raises AirflowFailException: there is no such upsert table
        :raises CdcJobFailed: a retry may help
        """
        task = jobs.RedriveChanges(self.table, self.late)
        return self.hook.submit(task, context=context).redriven or 0


class ApplyUpserts(ConsumingOperator):
    """Apply the changes that wait for an upsert table, exactly once; nothing where none waits.

    Returns (XCom) the outcome, as ``ConsumeStream`` does, or None.

    :param table: the upsert table, by its name or the root of its base (templated); by the root,
        where nothing waits, no Spark job is started
    :param is_timed: note how long it took since its run was due, from which
        :func:`~airflow_provider_cdc.dag_factories.upserts.background_apply_dags` takes the schedule
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "conn_id")

    def __init__(self, *, table: str, is_timed: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.is_timed = is_timed

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Apply the changes; a retry finishes what an attempt began.

        :raises AirflowFailException: there is no such upsert table
        :raises CdcJobFailed: a retry may help; the changes wait, the table is as it was
        """
        with task_errors():
            catalog = self.hook.catalog()
            stream = upsert_stream(catalog.show(), self.table)
            if stream and not stream.consumption and not catalog.look_at(stream).may_have_data:
                self.log.info("No change of %s waits", stream.upsert_table)
                return None
        outcome = self.hook.submit(jobs.ApplyUpserts(self.table), context=context).outcome
        if outcome is None:
            return None
        announced = self.announced(outcome, context)
        if stream and self.is_timed:
            took = utc_now() - context["dag_run"].run_after
            self.hook.settings.apply_times().note(stream.stream_id, took)
        return announced
