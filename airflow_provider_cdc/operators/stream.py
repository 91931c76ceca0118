"""Operators of streams. Each one checks its arguments, makes one call and returns a plain dict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_cdc.engine.core.arguments.points import Point
from airflow_provider_cdc.engine.core.errors import StreamNotFound
from airflow_provider_cdc.engine.core.folders.file_options import options_as_text
from airflow_provider_cdc.engine.core.model.stream import (
    AppendSemantics,
    ColumnStyle,
    Stream,
)
from airflow_provider_cdc.engine.core.model.stream_spec import StreamSpec
from airflow_provider_cdc.engine.core.retention.staleness import MAX_DATA_EXTENSION
from airflow_provider_cdc.hooks.failures import task_errors
from airflow_provider_cdc.hooks.registry_reach import check_reach, reached_errors
from airflow_provider_cdc.jobs import model as jobs

from .arguments import parse_duration
from .base import ConsumingOperator, StreamOperator
from .consumed import written
from .consumption_tasks import consumption_task, streams_read
from .identities import default_consumer
from .outcome import stream_result

if TYPE_CHECKING:
    from airflow.sdk import Context


class CreateStream(StreamOperator):
    """Create a stream on a Delta table, on a view or on a folder of files, at its current version
    or at an earlier point.

    Returns (XCom) ``stream``, ``stream_id``, ``source``, ``mode`` and ``offset_version``.

    :param stream: the name of the stream (templated)
    :param on_table: name or path of the source table (templated); alternatively ``on_view`` or
        ``on_files``
    :param on_view: name of a view that a stream can follow (templated)
    :param on_files: absolute path or URI of a folder of files (templated)
    :param file_format: ``parquet``, ``csv``, ``json``, ``orc`` or ``avro`` (templated)
    :param file_options: options of Spark's reader, such as ``{"header": True}`` (templated)
    :param file_schema: the columns in DDL (templated); by default inferred from the existing files
    :param mode: ``standard`` (the default), ``append_only``, or ``feed``: every change of each
        commit; with ``on_files`` it is always ``insert_only`` (templated)
    :param append_semantics: ``inserted`` or ``surviving``, for ``append_only`` (templated)
    :param column_style: ``snowflake`` or ``databend`` (templated)
    :param at: the point after which the stream's changes begin: ``Version(3)``,
        ``OffsetOf("other")`` or ``Timestamp("2026-01-01T00:00:00Z")``; a mapping such as
        ``{"version": "{{ ... }}"}`` (keys ``version``, ``timestamp``, ``offset_of``) is templated
    :param before: like ``at``, but the changes of exactly that version or time are the first
        changes of the stream (templated)
    :param or_replace: drop a stream of that name in the same step; a retry replaces it again
    :param if_not_exists: if the stream exists already, return it and start no Spark job. Set it for
        a task with retries, because an attempt may end after it created the stream
    :param show_initial_rows: whether the first consumption takes the rows at the offset
    :param comment: free text (templated)
    :param stream_owner: the principal that owns the stream; by default that of the connection
        (templated)
    :param readers: the principals that may read it besides its owner; by default all (templated)
    :param consumers: the principals that may consume it besides its owner; by default its readers
        (templated)
    :param max_data_extension: how long its sources may be extended to keep what it has not
        consumed, a duration or text such as ``P14D`` (templated)
    :param max_lag: how old a change may get before the monitor of streams sends an alert, in the
        same forms; by default any age (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "stream",
        "on_table",
        "on_view",
        "on_files",
        "file_format",
        "file_options",
        "file_schema",
        "mode",
        "append_semantics",
        "column_style",
        "at",
        "before",
        "comment",
        "stream_owner",
        "readers",
        "consumers",
        "max_data_extension",
        "max_lag",
        "conn_id",
    )

    def __init__(
        self,
        *,
        stream: str,
        on_table: str | None = None,
        on_view: str | None = None,
        on_files: str | None = None,
        file_format: str | None = None,
        file_options: Mapping[str, Any] | None = None,
        file_schema: str | None = None,
        mode: str | None = None,
        append_semantics: str = AppendSemantics.INSERTED.value,
        column_style: str = ColumnStyle.SNOWFLAKE.value,
        at: Point | Mapping[str, Any] | None = None,
        before: Point | Mapping[str, Any] | None = None,
        or_replace: bool = False,
        if_not_exists: bool = False,
        show_initial_rows: bool = False,
        comment: str | None = None,
        stream_owner: str | None = None,
        readers: Sequence[str] | None = None,
        consumers: Sequence[str] | None = None,
        max_data_extension: timedelta | str = MAX_DATA_EXTENSION,
        max_lag: timedelta | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.on_table = on_table
        self.on_view = on_view
        self.on_files = on_files
        self.file_format = file_format
        self.file_options = file_options
        self.file_schema = file_schema
        self.mode = mode
        self.append_semantics = append_semantics
        self.column_style = column_style
        self.at = at
        self.before = before
        self.or_replace = or_replace
        self.if_not_exists = if_not_exists
        self.comment = comment
        self.stream_owner = stream_owner
        self.show_initial_rows = show_initial_rows
        self.readers = readers
        self.consumers = consumers
        self.max_data_extension = max_data_extension
        self.max_lag = max_lag

    def execute(self, context: Context) -> dict[str, Any]:
        """Create the stream, or return the existing one.

        :raises AirflowFailException: an argument is wrong, the table cannot have a stream, or a
            stream of that name exists
        :raises CdcJobFailed: a retry may help, for example if the state folder cannot be reached
        """
        task = self._task()
        if self.if_not_exists and (existing := self._existing()):
            self.log.info("Stream %s exists already", self.stream)
            return stream_result(existing)
        check_reach(self.hook)
        answer = self.hook.submit(task, context=context)
        return stream_result(answer.stream)

    def _task(self) -> jobs.CreateStream:
        with task_errors():
            extension = parse_duration(self.max_data_extension, "max_data_extension")
            spec = StreamSpec.parsed(
                name=self.stream,
                on_table=self.on_table,
                on_view=self.on_view,
                on_files=self.on_files,
                file_format=self.file_format,
                file_options=options_as_text(self.file_options),
                file_schema=self.file_schema,
                mode=self.mode,
                append_semantics=self.append_semantics,
                column_style=self.column_style,
                at=self.at,
                before=self.before,
                or_replace=self.or_replace,
                if_not_exists=self.if_not_exists,
                show_initial_rows=self.show_initial_rows,
                comment=self.comment,
                owner=self.stream_owner,
                readers=self.readers,
                consumers=self.consumers,
                max_data_extension=MAX_DATA_EXTENSION if extension is None else extension,
                max_lag=parse_duration(self.max_lag, "max_lag"),
            )
        return jobs.CreateStream(spec)

    def _existing(self) -> Stream | None:
        with task_errors():
            try:
                return self.hook.catalog().get_stream(self.stream)
            except StreamNotFound:
                return None


class ConsumeStream(ConsumingOperator):
    """Consume streams by DML or a function, exactly once.

    All statements see the same changes: those between the streams' offsets and the versions that
    were pinned when the consumption began. After the last statement is applied, all offsets move to
    these versions. Readers of several targets may see the effect of one statement before that of
    another. One consumer must not have two consumptions at the same time. So set
    ``max_active_runs=1``, and also ``max_active_tis_per_dag=1`` if the DAG may be backfilled,
    because Airflow counts backfill runs separately.

    A retry finishes a consumption by statements. If a function did not finish, a retry first undoes
    what the function did, and then calls the function again, because only the function knows the
    rest of its work.

    Returns (XCom) ``consumption_id``, ``consumer``, ``streams`` (name, ``after_version`` exclusive,
    ``through_version`` inclusive, ``rows`` by action, ``strategy``), ``statements`` and
    ``seconds``.

    :param stream: the stream, or streams, that the statements must read (templated)
    :param sql: one or several statements (templated; ``.sql`` files); alternatively ``apply``
    :param apply: ``package.module:function``, a function that the driver can import, for work that
        SQL cannot express (templated). Its arguments are the change set of each stream, as a
        DataFrame, and the :class:`~airflow_provider_cdc.engine.Transaction`. It writes with the
        methods ``sql`` and ``write`` of the transaction. If it raises an exception, nothing is
        consumed
    :param consumer: the name that identifies a retry; by default the ids of the DAG and the task,
        and the map index of a mapped task (templated). If the order of the list of a mapped task
        may change, include the consumed streams in the name: another consumer undoes what this one
        began, and cannot finish it
    :param max_commits: the most commits to take of each stream; the rest waits for the next run
        (templated)
    :param max_bytes: the most bytes of files that the taken commits of a stream may have added and
        removed together; the first commit is always taken (templated). Neither limit cuts initial
        rows
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "stream",
        "sql",
        "apply",
        "consumer",
        "max_commits",
        "max_bytes",
        "conn_id",
    )
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"sql": "sql"}

    def __init__(
        self,
        *,
        stream: str | Sequence[str],
        sql: str | Sequence[str] | None = None,
        apply: str | None = None,
        consumer: str | None = None,
        max_commits: int | str | None = None,
        max_bytes: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.sql = sql
        self.apply = apply
        self.consumer = consumer
        self.max_commits = max_commits
        self.max_bytes = max_bytes

    def execute(self, context: Context) -> dict[str, Any]:
        """Check the arguments without a JVM, and run the statements or the function as one
        consumption.

        :raises AirflowFailException: a stream is missing or unusable, a statement cannot consume,
            no statement reads a stream that ``stream`` names, or not exactly one of ``sql`` and
            ``apply`` is given
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            task = self._task(context)
            self._check(task)
        answer = self.hook.submit(task, context=context)
        statements = None if answer.outcome is None else written(answer.outcome, task.statements)
        return self.announced(answer, context, statements=statements)

    def _task(self, context: Context) -> jobs.ConsumeStream:
        return consumption_task(
            stream=self.stream,
            sql=self.sql,
            apply=self.apply,
            consumer=self.consumer or (lambda _: default_consumer(context)),
            max_commits=self.max_commits,
            max_bytes=self.max_bytes,
        )

    def _check(self, task: jobs.ConsumeStream) -> None:
        catalog = self.hook.catalog()
        _, registered = catalog.registered(task.streams)
        streams_read(task, registered, catalog)


class AdvanceStream(StreamOperator):
    """Move the offset of a stream to the current version of its source, without any DML. No Spark
    job is started.

    Returns (XCom) the same as :class:`CreateStream`.

    :param stream: the name of the stream (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("stream", "conn_id")

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    def execute(self, context: Context) -> dict[str, Any]:
        """Advance the stream.

        :raises AirflowFailException: the stream is missing, or the principal may not consume it
        :raises CdcJobFailed: a consumption of it is open
        """
        with reached_errors(self.hook):
            return stream_result(self.hook.catalog().advance_stream(self.stream))


class DropStream(StreamOperator):
    """Drop a stream. Its source and its targets stay unchanged. No Spark job is started.

    :param stream: the name of the stream (templated)
    :param if_exists: a missing stream is not an error
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("stream", "conn_id")

    def __init__(self, *, stream: str, if_exists: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.if_exists = if_exists

    def execute(self, context: Context) -> None:
        """Drop the stream.

        :raises AirflowFailException: the stream is missing
        :raises CdcJobFailed: a consumption of it is open
        """
        with reached_errors(self.hook):
            if self.if_exists:
                check_reach(self.hook)
            self.hook.catalog().drop_stream(self.stream, if_exists=self.if_exists)
