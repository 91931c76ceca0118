"""The operators that keep copies and histories of tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_cdc.engine.core.arguments.points import Timestamp
from airflow_provider_cdc.engine.core.arguments.validation import check_argument
from airflow_provider_cdc.engine.core.debezium.envelope import UNAVAILABLE
from airflow_provider_cdc.engine.core.history.options import (
    TOMBSTONE_HORIZON,
    Absent,
    Deleted,
    OnNull,
)
from airflow_provider_cdc.engine.core.history.request import HistoryRequest
from airflow_provider_cdc.hooks.registry_reach import reached_errors
from airflow_provider_cdc.jobs import model as jobs

from .arguments import parse_duration, parse_int, parse_text
from .base import ConsumingOperator
from .consumed import copying
from .identities import default_consumer

if TYPE_CHECKING:
    from airflow.sdk import Context

Columns = str | Sequence[str] | None
# The arguments that are passed on as they are.
_OPTIONS = (
    "keys",
    "scd_type",
    "sequence_by",
    "apply_as_deletes",
    "apply_as_truncates",
    "column_list",
    "except_column_list",
    "track_history_column_list",
    "track_history_except_column_list",
    "ignore_null_updates",
    "start_column",
    "end_column",
    "open_end",
    "current_column",
    "current_view",
    "deleted",
    "on_tie",
    "on_null",
    "absent",
    "absent_scope",
    "payload",
    "payload_schema",
    "unavailable_value",
)


class ApplyChanges(ConsumingOperator):
    """Keep a Delta table equal to its source (SCD type 1), or keep all versions of its rows (type
    2), exactly once.

    The target is created if it does not exist, and follows columns that are added to the source.
    The order in which events arrive, events that come again, retries and crashes make no
    difference. The options are those of ``AUTO CDC`` in Databricks; see
    :meth:`Engine.apply_changes` for each of them. Later runs pass the same options.

    Returns (XCom) the outcome, as ``ConsumeStream`` does; ``None``: there was nothing to apply. The
    metrics of its last statement have ``rowsWritten``, ``rowsRemoved``, ``eventsRemembered``,
    ``eventsQuarantined`` and ``eventsBeyondHorizon``.

    :param target: name or path of a Delta table (templated)
    :param keys: the columns that identify a row of the source (templated)
    :param stream: the stream whose changes are applied (templated)
    :param query: SELECT, templated, also from a ``.sql`` file: with ``stream`` it shapes the
        changes, without one its rows are events
    :param snapshot: name or path of a Delta table, or a query: all rows of the source (templated)
    :param scd_type: 1 or 2
    :param sequence_by: what orders the events of a key, by default the commits (templated)
    :param apply_as_deletes: a condition of the events that delete (templated)
    :param apply_as_truncates: a condition of the events that end all rows (templated)
    :param column_list: the columns of the target beside the keys, by default all (templated)
    :param except_column_list: all but these (templated)
    :param track_history_column_list: the columns whose change begins a new row (templated)
    :param track_history_except_column_list: all but these (templated)
    :param ignore_null_updates: NULL means unchanged: everywhere (``True``) or in these columns
    :param start_column: the name of the column of the start, by default ``__START_AT``
    :param end_column: the name of the column of the end, by default ``__END_AT``
    :param open_end: the end of rows that have not ended, by default NULL
    :param current_column: the name of a column that is true in rows that have not ended
    :param current_view: the name of a view of the rows that have not ended (templated)
    :param deleted: ``close``, or ``row`` to mark deletes by a row
    :param tombstone_horizon: how long late events find what no row shows (templated)
    :param on_tie: ``last``, ``fail`` or ``quarantine``
    :param on_null: ``fail`` or ``quarantine``
    :param snapshot_at: the moment that the snapshot shows, such as
        ``"{{ data_interval_end }}"`` (templated)
    :param absent: what a key means that the snapshot lacks: ``delete`` or ``ignore``
    :param absent_scope: the columns that say which keys the snapshot could have (templated)
    :param payload: ``debezium``: the source holds messages of Debezium
    :param payload_schema: the columns that these are about, if they are JSON without a schema
        (templated)
    :param unavailable_value: what these have in the place of long values that did not change
    :param cluster_by: what a new target is clustered by, by default its keys (templated)
    :param consumer: the name that identifies a retry; by default the ids of the DAG and the task,
        and the map index of a mapped task (templated)
    :param max_commits: the most commits to take; the rest waits for the next run (templated)
    :param max_bytes: the most bytes of files that the taken commits changed (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "target",
        "keys",
        "stream",
        "query",
        "snapshot",
        "sequence_by",
        "apply_as_deletes",
        "apply_as_truncates",
        "column_list",
        "except_column_list",
        "track_history_column_list",
        "track_history_except_column_list",
        "current_view",
        "tombstone_horizon",
        "snapshot_at",
        "absent_scope",
        "payload_schema",
        "cluster_by",
        "consumer",
        "max_commits",
        "max_bytes",
        "conn_id",
    )
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"query": "sql"}

    def __init__(
        self,
        *,
        target: str,
        keys: str | Sequence[str],
        stream: str | None = None,
        query: str | None = None,
        snapshot: str | None = None,
        scd_type: int = 1,
        sequence_by: Columns = None,
        apply_as_deletes: str | None = None,
        apply_as_truncates: str | None = None,
        column_list: Columns = None,
        except_column_list: Columns = None,
        track_history_column_list: Columns = None,
        track_history_except_column_list: Columns = None,
        ignore_null_updates: bool | str | Sequence[str] = False,
        start_column: str | None = None,
        end_column: str | None = None,
        open_end: str | None = None,
        current_column: str | None = None,
        current_view: str | None = None,
        deleted: str = Deleted.CLOSE.value,
        tombstone_horizon: timedelta | str | None = TOMBSTONE_HORIZON,
        on_tie: str | None = None,
        on_null: str = OnNull.FAIL.value,
        snapshot_at: datetime | str | None = None,
        absent: str = Absent.DELETE.value,
        absent_scope: Columns = None,
        payload: str | None = None,
        payload_schema: str | None = None,
        unavailable_value: str = UNAVAILABLE,
        cluster_by: Columns = None,
        consumer: str | None = None,
        max_commits: int | str | None = None,
        max_bytes: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.keys = keys
        self.stream = stream
        self.query = query
        self.snapshot = snapshot
        self.scd_type = scd_type
        self.sequence_by = sequence_by
        self.apply_as_deletes = apply_as_deletes
        self.apply_as_truncates = apply_as_truncates
        self.column_list = column_list
        self.except_column_list = except_column_list
        self.track_history_column_list = track_history_column_list
        self.track_history_except_column_list = track_history_except_column_list
        self.ignore_null_updates = ignore_null_updates
        self.start_column = start_column
        self.end_column = end_column
        self.open_end = open_end
        self.current_column = current_column
        self.current_view = current_view
        self.deleted = deleted
        self.tombstone_horizon = tombstone_horizon
        self.on_tie = on_tie
        self.on_null = on_null
        self.snapshot_at = snapshot_at
        self.absent = absent
        self.absent_scope = absent_scope
        self.payload = payload
        self.payload_schema = payload_schema
        self.unavailable_value = unavailable_value
        self.cluster_by = cluster_by
        self.consumer = consumer
        self.max_commits = max_commits
        self.max_bytes = max_bytes

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Check the arguments without a JVM, and apply what waits.

        :raises AirflowFailException: an argument is wrong or contradicts the target, the stream is
            missing or unusable, or an event cannot be applied
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            task = self._task(context)
            if not self._has_data(task.request.stream):
                self.log.info("Nothing waits for %s", self.target)
                return None
        answer = self.hook.submit(task, context=context)
        if answer.outcome is None:
            return None
        # What a message says about a column is not in a column of the source.
        is_plain = self.payload is None
        source = self.query or self.snapshot
        statements = copying(answer.outcome, source, self.stream) if is_plain else ()
        return self.announced(answer, context, statements=statements)

    def _task(self, context: Context) -> jobs.ApplyChanges:
        request = HistoryRequest.parsed(
            target=self.target,
            stream=parse_text(self.stream),
            query=parse_text(self.query),
            snapshot=parse_text(self.snapshot),
            snapshot_at=self._moment(),
            cluster_by=self.cluster_by,
            max_commits=parse_int(self.max_commits),
            max_bytes=parse_int(self.max_bytes),
            tombstone_horizon=parse_duration(self.tombstone_horizon, "tombstone_horizon"),
            **{name: getattr(self, name) for name in _OPTIONS},
        )
        return jobs.ApplyChanges(request, self.consumer or default_consumer(context))

    def _moment(self) -> datetime | None:
        given = parse_text(self.snapshot_at)
        check_argument("argument snapshot_at of ApplyChanges", given, datetime | str | None)
        return Timestamp(given).moment if given is not None else None

    def _has_data(self, stream: str | None) -> bool:
        """Whether a job has something to do; a query and a snapshot may always have."""
        if stream is None:
            return True
        catalog = self.hook.catalog()
        found = catalog.get_stream(stream)
        return found.consumption is not None or catalog.probe_of(found).may_have_data


class RebuildHistory(ConsumingOperator):
    """Compute a history target anew from an archive of its source, in one commit, and consume what
    waits in its stream.

    Returns (XCom) the outcome, as ``ConsumeStream`` does.

    :param target: the history target (templated)
    :param archive: the archive of the table that the stream is on (templated)
    :param stream: the stream that fills the target (templated)
    :param query: the query of the ``ApplyChanges`` that fills it, if it has one (templated, also
        from ``.sql`` files)
    :param consumer: the name that identifies a retry; by default the ids of the DAG and the task,
        and the map index of a mapped task (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "target",
        "archive",
        "stream",
        "query",
        "consumer",
        "conn_id",
    )
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"query": "sql"}

    def __init__(
        self,
        *,
        target: str,
        archive: str,
        stream: str,
        query: str | None = None,
        consumer: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.archive = archive
        self.stream = stream
        self.query = query
        self.consumer = consumer

    def execute(self, context: Context) -> dict[str, Any]:
        """Rebuild the target.

        :raises AirflowFailException: an argument is wrong, or the archive is of another table
        :raises CdcJobFailed: a retry may help; the target is unchanged
        """
        with reached_errors(self.hook):
            self.hook.catalog().registered([self.stream])
            task = jobs.RebuildHistory(
                self.target,
                self.archive,
                self.stream,
                self.consumer or default_consumer(context),
                parse_text(self.query),
            )
        answer = self.hook.submit(task, context=context)
        # Only the target knows whether its source holds messages.
        statements = None if answer.outcome is None else copying(answer.outcome, self.archive)
        return self.announced(answer, context, statements=statements)
