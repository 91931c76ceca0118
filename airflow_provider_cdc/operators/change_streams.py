"""The operators of change streams: create, alter, advance, drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.assets.change_stream import ADVANCES, announce_advance
from airflow_provider_cdc.engine.core.arguments.validation import KEPT, Kept, check_argument
from airflow_provider_cdc.engine.core.change_streams.spec import ChangeStreamSpec, settings_given
from airflow_provider_cdc.engine.core.change_streams.watches import Watch
from airflow_provider_cdc.engine.core.names import stream_name
from airflow_provider_cdc.engine.core.shown_values import shown
from airflow_provider_cdc.hooks.registry_reach import reached_errors
from airflow_provider_cdc.jobs import change_stream_tasks as jobs

from .arguments import parse_bool, parse_int, parse_text
from .base import StreamOperator
from .outcome import change_stream_result
from .watches import watches_of

if TYPE_CHECKING:
    from airflow.sdk import Context

_SETTINGS = ("value_capture_type", "retention_period", "int64_as", "on_duplicate_key")
_EXCLUDES = ("exclude_insert", "exclude_update", "exclude_delete")


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
    :param target_rows: how many changed rows an advance should capture of each partition; it splits
        and merges partitions for that (templated)
    :param comment: a text that the list of change streams shows (templated)
    :param or_replace: drop a change stream of that name, with its records
    :param if_not_exists: leave a change stream of that name as it is, without a Spark job
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "change_stream",
        "tables",
        "value_capture_type",
        "retention_period",
        "partitions",
        "target_rows",
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
        target_rows: int | str | None = None,
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
        self.target_rows = target_rows
        self.comment = comment
        self.or_replace = or_replace
        self.if_not_exists = if_not_exists

    def execute(self, context: Context) -> dict[str, Any]:
        """Create the change stream.

        :raises AirflowFailException: an argument is wrong, or the name is taken
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            spec = self._spec()
            if spec.if_not_exists and not spec.or_replace:
                known = self.hook.change_streams().find_change_stream(spec.name)
                if known is not None:
                    self.log.info("Change stream %s exists already", known.name)
                    return change_stream_result(known)
        task = jobs.CreateChangeStream(spec)
        return change_stream_result(self.hook.submit(task, context=context).change_stream)

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
            "target_rows": (parse_int(self.target_rows), int | None),
            "comment": (parse_text(self.comment), str | None),
            "or_replace": (parse_bool(self.or_replace), bool),
            "if_not_exists": (parse_bool(self.if_not_exists), bool),
        }
        for name, (value, hint) in given.items():
            check_argument(f"argument {name} of CreateChangeStream", value, hint)
        return ChangeStreamSpec.parsed(
            name=stream_name(self.change_stream),
            tables=watches_of(subject, self.tables),
            **{name: value for name, (value, _) in given.items()},
        )


class AlterChangeStream(StreamOperator):
    """Change what a change stream watches, what its records hold, or how long they are kept.

    Arguments that are not given stay unchanged. What was committed before is captured first, so its
    records stay as they are. Returns (XCom) the same as :class:`CreateChangeStream`.

    :param change_stream: the name of the change stream (templated)
    :param tables: all tables to watch from now on, as for :class:`CreateChangeStream`; the key of a
        table cannot change (templated)
    :param value_capture_type: as for :class:`CreateChangeStream` (templated)
    :param retention_period: as for :class:`CreateChangeStream` (templated)
    :param exclude_insert: whether inserts give no records
    :param exclude_update: whether updates give no records
    :param exclude_delete: whether deletes give no records
    :param int64_as: as for :class:`CreateChangeStream`
    :param on_duplicate_key: as for :class:`CreateChangeStream`
    :param target_rows: as for :class:`CreateChangeStream`; ``None``: no partition is split or
        merged by load (templated)
    :param comment: the new comment; ``None``: no comment (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "change_stream",
        "tables",
        "value_capture_type",
        "retention_period",
        "target_rows",
        "comment",
        "conn_id",
    )

    def __init__(
        self,
        *,
        change_stream: str,
        tables: Mapping[str, Watch | Mapping[str, Any]] | Kept = KEPT,
        value_capture_type: str | Kept = KEPT,
        retention_period: timedelta | str | Kept = KEPT,
        exclude_insert: bool | str | Kept = KEPT,
        exclude_update: bool | str | Kept = KEPT,
        exclude_delete: bool | str | Kept = KEPT,
        int64_as: str | Kept = KEPT,
        on_duplicate_key: str | Kept = KEPT,
        target_rows: int | str | Kept | None = KEPT,
        comment: str | Kept | None = KEPT,
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
        self.int64_as = int64_as
        self.on_duplicate_key = on_duplicate_key
        self.target_rows = target_rows
        self.comment = comment

    def execute(self, context: Context) -> dict[str, Any]:
        """Alter the change stream. A retry alters it in the same way again.

        :raises AirflowFailException: an argument is wrong, or the change stream is missing
        :raises CdcJobFailed: a retry may help, for example if another process advances it
        """
        with reached_errors(self.hook):
            task = self._task()
        return change_stream_result(self.hook.submit(task, context=context).change_stream)

    def _task(self) -> jobs.AlterChangeStream:
        name = stream_name(self.change_stream)
        subject = f"change stream {name}"
        given = {
            "value_capture_type": (parse_text(self.value_capture_type), str | Kept | None),
            "retention_period": (parse_text(self.retention_period), timedelta | str | Kept | None),
            "int64_as": (self.int64_as, str | Kept),
            "on_duplicate_key": (self.on_duplicate_key, str | Kept),
            "exclude_insert": (parse_bool(self.exclude_insert), bool | Kept),
            "exclude_update": (parse_bool(self.exclude_update), bool | Kept),
            "exclude_delete": (parse_bool(self.exclude_delete), bool | Kept),
            "target_rows": (parse_int(self.target_rows), int | Kept | None),
            "comment": (parse_text(self.comment), str | Kept | None),
        }
        for argument, (value, hint) in given.items():
            check_argument(f"argument {argument} of AlterChangeStream", value, hint)
        tables, comment, rows = self.tables, given["comment"][0], given["target_rows"][0]
        # A template that returned nothing leaves a setting as it is.
        found = {name: value for name, (value, _) in given.items() if value not in (None, KEPT)}
        return jobs.AlterChangeStream(
            name,
            None if isinstance(tables, Kept) else watches_of(subject, tables),
            comment=None if comment is KEPT else comment,
            keeps_comment=comment is KEPT,
            keeps_target_rows=rows is KEPT,
            **{name: found[name] for name in _EXCLUDES if name in found},
            **settings_given(
                subject,
                (),
                excludes={},
                target_rows=rows,
                **{name: found.get(name, KEPT) for name in _SETTINGS},
            ),
        )


class AdvanceChangeStream(StreamOperator):
    """Seal what was committed to the tables of a change stream, and capture it exactly once.

    A retry, and the next run after a killed one, finish what was begun. Each advance is an event of
    :func:`~airflow_provider_cdc.assets.change_stream.change_stream_asset`. Returns (XCom) the same
    as :class:`CreateChangeStream`.

    :param change_stream: the name of the change stream (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("change_stream", "conn_id")

    def __init__(self, *, change_stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.change_stream = change_stream
        self.add_outlets([ADVANCES])

    def execute(self, context: Context) -> dict[str, Any]:
        """Seal and capture.

        :raises AirflowFailException: the change stream is missing, several rows have the same key,
            or changes were lost
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            task = jobs.AdvanceChangeStream(stream_name(self.change_stream))
        result = change_stream_result(self.hook.submit(task, context=context).change_stream)
        announce_advance(context, self.conn_id, result)
        return result


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
