"""Operators of upsert tables: they write, redrive and apply changes, and export rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_cdc.engine.catalog.upsert_jobs import DEFAULT_INTERVAL, upsert_stream
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.arguments.choices import parse_enum
from airflow_provider_cdc.engine.core.debezium.envelope import UNAVAILABLE, payload_options
from airflow_provider_cdc.engine.core.upserts.definition import OnBadRows
from airflow_provider_cdc.engine.core.upserts.job_records import HELD_CHANGES, LATE_CHANGES
from airflow_provider_cdc.hooks.failures import task_errors
from airflow_provider_cdc.hooks.registry_reach import check_reach
from airflow_provider_cdc.jobs import model as jobs
from airflow_provider_cdc.jobs import upsert_tasks

from .arguments import parse_bool, parse_text
from .base import ConsumingOperator, ExportingOperator, StreamOperator
from .identities import once_for_run
from .metrics import Figure, measure
from .outcome import write_result

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_cdc.engine.core.model.outcomes import Outcome
    from airflow_provider_cdc.engine.core.model.stream import Stream


class WriteChanges(StreamOperator):
    """Write the rows of a query as changes of an upsert table, once for each run of the DAG.

    Each row has the key, ``_CHANGE_TYPE`` (UPSERT or DELETE), the values and, if there is an order,
    ``_CHANGE_SEQUENCE_NUMBER``. A retry after the write writes nothing. If the query of the task
    changed, the task writes again in the same run.

    Returns (XCom) the numbers of ``changes`` that were written, of those that are ``bad``, and the
    ``version`` of the table of changes. A retry returns what the first attempt wrote, and
    ``is_repeated``.

    :param table: the upsert table (templated)
    :param query: the SELECT that returns the changes (templated; ``.sql`` files)
    :param on_bad_rows: ``fail``: a bad row fails the write, and nothing is written; ``quarantine``:
        bad rows go to the quarantine, and the others are written (templated)
    :param payload: ``debezium``: the rows hold messages of Debezium about the table
    :param sequence_by: the sequence number of a message, as an SQL expression over it; by default
        its position in the log of the database (templated)
    :param unavailable_value: what messages have in the place of long values that did not change
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "query", "on_bad_rows", "sequence_by", "conn_id")
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"query": "sql"}

    def __init__(
        self,
        *,
        table: str,
        query: str,
        on_bad_rows: str = OnBadRows.FAIL.value,
        payload: str | None = None,
        sequence_by: str | None = None,
        unavailable_value: str = UNAVAILABLE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.query = query
        self.on_bad_rows = on_bad_rows
        self.payload = payload
        self.sequence_by = sequence_by
        self.unavailable_value = unavailable_value

    def execute(self, context: Context) -> dict[str, Any]:
        """Write the changes.

        :raises AirflowFailException: a column or a row does not fit; nothing was written
        :raises CdcJobFailed: a retry may help
        """
        # The id includes what the task writes. So a task that is cleared after this was corrected
        # writes again.
        what = [self.table, self.query]
        if self.payload is not None:
            what += [self.payload, self.sequence_by or "", self.unavailable_value]
        write_id = once_for_run(context, *what)
        subject = f"changes of {self.table}"
        with task_errors():
            on_bad_rows = parse_enum(subject, "on_bad_rows", OnBadRows, self.on_bad_rows)
            sequence_by = parse_text(self.sequence_by)
            payload_options(subject, self.payload, sequence_by, self.unavailable_value)
        task = upsert_tasks.WriteChanges(
            self.table,
            self.query,
            write_id,
            on_bad_rows,
            self.payload,
            sequence_by,
            self.unavailable_value,
        )
        return write_result(self.hook.submit(task, context=context).written)


class ExportTable(ExportingOperator):
    """Write the rows of an upsert table to a table or to files, as fresh as its ``max_staleness``
    requires. BigQuery: EXPORT DATA.

    Nothing is applied. The job of this task merges waiting changes if the read needs them. So use a
    separate pool, such as ``cdc_query``. A task that runs again overwrites the target. If it
    appends to a Delta table, it appends once for each run of its DAG.

    :param table: the upsert table (templated)
    :param target: name or path of a Delta table, which is created if it does not exist; with a
        format of files, the URI of a folder (templated)
    :param file_format: ``delta``, ``parquet``, ``csv``, ``json`` or ``orc`` (templated)
    :param mode: ``overwrite``, ``append`` (only for Delta tables) or ``error`` (templated)
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
                parse_enum(subject, "file_format", jobs.ExportFormat, self.file_format),
                parse_enum(subject, "mode", jobs.ExportMode, self.mode),
            )
        self.export(task, context)


class RedriveChanges(StreamOperator):
    """Redrive the changes in quarantine of an upsert table that can be applied now. They wait
    again.

    Before this task, correct bad changes in the quarantine. Returns (XCom) the number of redriven
    changes.

    :param table: the upsert table (templated)
    :param late: whether to redrive late changes too (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "late", "conn_id")

    def __init__(self, *, table: str, late: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.late = late

    def execute(self, context: Context) -> int:
        """Redrive the changes. A retry finishes what an attempt began.

        :raises AirflowFailException: there is no such upsert table
        :raises CdcJobFailed: a retry may help
        """
        task = upsert_tasks.RedriveChanges(self.table, parse_bool(self.late))
        return self.hook.submit(task, context=context).redriven or 0


class ApplyUpserts(ConsumingOperator):
    """Apply the waiting changes of an upsert table, exactly once. If no change waits, do nothing.

    Returns (XCom) the outcome, as ``ConsumeStream`` does, with ``held_changes`` and
    ``late_changes``: the numbers of changes in quarantine afterwards. Returns ``None`` if no change
    waits. The two numbers are also the Airflow metrics
    ``cdc.stream.<conn_id>.<stream>.held_changes`` and ``.late_changes``.

    :param table: the upsert table, by its name or by the root of its base (templated). If it is
        given by the root and no change waits, no Spark job is started
    :param record_duration: whether to record how long the apply took from the time when its run was
        due. :func:`~airflow_provider_cdc.dag_factories.upserts.background_apply_dags` computes the
        schedule from these durations. If a run began later than ``max_staleness`` after it was due,
        its duration is not recorded
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "conn_id")

    def __init__(self, *, table: str, record_duration: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.record_duration = record_duration

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Apply the changes. A retry finishes what an attempt began.

        :raises AirflowFailException: there is no such upsert table
        :raises CdcJobFailed: a retry may help; the changes still wait, and the table is unchanged
        """
        began = utc_now()
        with task_errors():
            catalog = self.hook.catalog()
            stream = upsert_stream(catalog.list_streams(), self.table)
            if stream and not stream.consumption and not catalog.probe_of(stream).may_have_data:
                self.log.info("No change of %s waits", stream.upsert_table)
                size = catalog.quarantine_of(stream)
                if size is not None and size.changes == 0:
                    measure(
                        self.conn_id, stream.name, {Figure.HELD_CHANGES: 0, Figure.LATE_CHANGES: 0}
                    )
                return None
        if stream is None:
            check_reach(self.hook)
        answer = self.hook.submit(upsert_tasks.ApplyUpserts(self.table), context=context)
        outcome = answer.outcome
        if outcome is None:
            return None
        table = (stream and stream.upsert_table) or self.table
        announced = self.announced(answer, context, upsert_table=table)
        result = announced | self._quarantined(outcome)
        if stream and self.record_duration:
            run = context["dag_run"]
            self._note(stream, run.run_after, run.start_date or began)
        return result

    def _note(self, stream: Stream, due: datetime, began: datetime) -> None:
        # If an old run is cleared, or if a run waited for a scheduler that was down, its duration
        # does not show how long applies take. If its task waited for a slot, its duration does.
        if began - due <= (stream.max_lag or DEFAULT_INTERVAL):
            self.hook.settings.apply_times().note(stream.stream_id, utc_now() - due)

    def _quarantined(self, outcome: Outcome) -> dict[str, int]:
        """The numbers of changes in quarantine. They are also set as metrics."""
        metrics = outcome.statements[-1].metrics
        named = {Figure.HELD_CHANGES: HELD_CHANGES, Figure.LATE_CHANGES: LATE_CHANGES}
        # The metrics do not have a count that could not be determined.
        found = {name: metrics[key] for name, key in named.items() if key in metrics}
        # If another driver finished what this one began, the outcome lists no stream.
        for stream in outcome.streams:
            measure(self.conn_id, stream.name, found)
        return {figure.value: count for figure, count in found.items()}
