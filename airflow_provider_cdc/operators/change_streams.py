"""The operators of change streams: create, advance, drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.arguments.validation import check_argument
from airflow_provider_cdc.engine.core.change_streams.definition import ChangeStream
from airflow_provider_cdc.engine.core.change_streams.spec import ChangeStreamSpec
from airflow_provider_cdc.engine.core.change_streams.stamps import stamp_text
from airflow_provider_cdc.engine.core.change_streams.watches import ALL, Columns, Watch
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.names import stream_name
from airflow_provider_cdc.engine.core.shown_values import shown
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.hooks.registry_reach import reached_errors
from airflow_provider_cdc.jobs import model as jobs

from .arguments import parse_bool, parse_int, parse_text
from .base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class CreateChangeStream(StreamOperator):
    """Create a change stream on tables, from their newest versions on.

    Returns (XCom) ``change_stream``, ``tables``, ``created``, ``captured_through`` and
    ``partitions``.

    :param change_stream: the name of the change stream (templated)
    :param tables: what to watch of each table: ``{"lake.accounts": {"keys": ["id"], "columns":
        ["balance"]}}``, or ``Watch(...)`` in place of the inner mapping (templated)
    :param value_capture_type: ``OLD_AND_NEW_VALUES``, ``NEW_VALUES``, ``NEW_ROW`` or
        ``NEW_ROW_AND_OLD_VALUES`` (templated)
    :param retention_period: how long records are kept, 1 to 7 days: ``1d``, ``P2D`` (templated)
    :param exclude_insert: inserts give no records
    :param exclude_update: updates give no records
    :param exclude_delete: deletes give no records
    :param partitions: how many partitions it begins with (templated)
    :param int64_as: how JSON shows whole numbers, as ``string`` or as ``number``
    :param on_duplicate_key: ``fail`` or ``quarantine``, if several rows have the same key
    :param comment: a text that the list of change streams shows (templated)
    :param or_replace: drop a change stream of that name, with its records
    :param if_not_exists: leave a change stream of that name as it is
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "change_stream",
        "tables",
        "value_capture_type",
        "retention_period",
        "partitions",
        "comment",
        "conn_id",
    )

    def __init__(
        self,
        *,
        change_stream: str,
        tables: Mapping[str, Watch | Mapping[str, Any]],
        value_capture_type: str = "OLD_AND_NEW_VALUES",
        retention_period: timedelta | str = "1d",
        exclude_insert: bool | str = False,
        exclude_update: bool | str = False,
        exclude_delete: bool | str = False,
        partitions: int | str = 1,
        int64_as: str = "string",
        on_duplicate_key: str = "fail",
        comment: str | None = None,
        or_replace: bool | str = False,
        if_not_exists: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.change_stream = change_stream
        self.tables = tables
        self.value_capture_type = value_capture_type
        self.retention_period = retention_period
        self.exclude_insert = exclude_insert
        self.exclude_update = exclude_update
        self.exclude_delete = exclude_delete
        self.partitions = partitions
        self.int64_as = int64_as
        self.on_duplicate_key = on_duplicate_key
        self.comment = comment
        self.or_replace = or_replace
        self.if_not_exists = if_not_exists

    def execute(self, context: Context) -> dict[str, Any]:
        """Create the change stream.

        :raises AirflowFailException: an argument is wrong, or the name is taken
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            task = jobs.CreateChangeStream(self._spec())
        return _result(self.hook.submit(task, context=context).change_stream)

    def _spec(self) -> ChangeStreamSpec:
        subject = f"change stream {shown(self.change_stream)}"
        given = {
            "value_capture_type": (self.value_capture_type, str),
            "retention_period": (self.retention_period, timedelta | str),
            "exclude_insert": (parse_bool(self.exclude_insert), bool),
            "exclude_update": (parse_bool(self.exclude_update), bool),
            "exclude_delete": (parse_bool(self.exclude_delete), bool),
            "partitions": (parse_int(self.partitions), int),
            "int64_as": (self.int64_as, str),
            "on_duplicate_key": (self.on_duplicate_key, str),
            "comment": (parse_text(self.comment), str | None),
            "or_replace": (parse_bool(self.or_replace), bool),
            "if_not_exists": (parse_bool(self.if_not_exists), bool),
        }
        for name, (value, hint) in given.items():
            check_argument(f"argument {name} of CreateChangeStream", value, hint)
        return ChangeStreamSpec.parsed(
            name=stream_name(self.change_stream),
            tables=_watches(subject, self.tables),
            **{name: value for name, (value, _) in given.items()},
        )


class AdvanceChangeStream(StreamOperator):
    """Seal what was committed to the tables of a change stream, and capture it exactly once.

    A retry, and the next run after a killed one, finish what was begun. Returns (XCom) the same as
    :class:`CreateChangeStream`.

    :param change_stream: the name of the change stream (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("change_stream", "conn_id")

    def __init__(self, *, change_stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.change_stream = change_stream

    def execute(self, context: Context) -> dict[str, Any]:
        """Seal and capture.

        :raises AirflowFailException: the change stream is missing, several rows have the same key,
            or changes were lost
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            task = jobs.AdvanceChangeStream(stream_name(self.change_stream))
        return _result(self.hook.submit(task, context=context).change_stream)


class DropChangeStream(StreamOperator):
    """Drop a change stream and its records. The tables stay unchanged.

    :param change_stream: the name of the change stream (templated)
    :param if_exists: a missing change stream is not an error
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("change_stream", "conn_id")

    def __init__(self, *, change_stream: str, if_exists: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.change_stream = change_stream
        self.if_exists = if_exists

    def execute(self, context: Context) -> None:
        """Drop the change stream.

        :raises AirflowFailException: the change stream is missing
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            check_argument("argument if_exists of DropChangeStream", self.if_exists, bool)
            task = jobs.DropChangeStream(stream_name(self.change_stream), self.if_exists)
        self.hook.submit(task, context=context)


def _watches(subject: str, given: object) -> dict[str, Watch]:
    """The watches that a DAG author writes.

    :raises InvalidRequest: one of them has another form
    """
    if not isinstance(given, Mapping):
        raise _malformed(subject, given)
    return {_name(subject, table): _watch(subject, watch) for table, watch in given.items()}


def _name(subject: str, table: object) -> str:
    if not isinstance(table, str):
        raise _malformed(subject, table)
    check_argument(f"tables of {subject}", table, str)
    return table


def _watch(subject: str, given: object) -> Watch:
    fields: Mapping[str, Any] = {}
    if isinstance(given, Watch):
        fields = {"keys": given.keys, "columns": given.columns}
    elif isinstance(given, Mapping) and set(given) <= {"keys", "columns"}:
        fields = given
    else:
        raise _malformed(subject, given)
    keys, columns = fields.get("keys", ()), fields.get("columns", ALL)
    check_argument(f"keys of {subject}", keys, Sequence[str])
    check_argument(f"columns of {subject}", columns, Columns | str | Sequence[str])
    return Watch(tuple(keys), columns if isinstance(columns, str) else tuple(columns))


def _malformed(subject: str, given: object) -> InvalidRequest:
    return InvalidRequest(
        subject,
        "cannot watch these tables",
        cause=f"found {shown(given)}",
        fix='write tables={"lake.accounts": {"keys": ["id"], "columns": ["balance"]}}',
    )


def _result(found: ChangeStream | None) -> dict[str, Any]:
    if found is None:
        raise CdcJobFailed("change stream: answered without a state. Fix: run the task again.")
    return {
        "change_stream": found.name,
        "tables": [table.name for table in found.tables],
        "created": stamp_text(found.created_at),
        "captured_through": stamp_text(found.captured),
        "partitions": len(found.layout.open),
    }
