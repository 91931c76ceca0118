"""The operator of CHANGES: it exports the changes between two points, without a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.arguments.choices import parse_enum
from airflow_provider_cdc.engine.core.arguments.points import (
    Point,
    Timestamp,
    as_mapping,
    bound_of,
    check_order,
    point_json,
    point_of,
)
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.model.stream import ColumnStyle
from airflow_provider_cdc.hooks.failures import task_errors
from airflow_provider_cdc.jobs import model as jobs

from .base import ExportingOperator
from .identities import once_for_run

if TYPE_CHECKING:
    from airflow.sdk import Context


class ExportChanges(ExportingOperator):
    """Write the changes of a table or a view between two points to a table or to files.

    Snowflake, CHANGES: no offset advances. A task that runs again writes the same changes again: it
    overwrites the target. If it appends to a Delta table, it appends once for each run of its DAG.
    An interval before the table's first commit is not an error: the table had no rows then.

    Returns (XCom) ``source``, ``target`` and ``format``.

    :param source: name or path of a table, or the name of a view (templated)
    :param target: name or path of a Delta table, which is created if it does not exist; with a
        format of files, the URI of a folder (templated)
    :param at: the point after which the changes begin, exclusive: ``Version(3)``,
        ``OffsetOf("a_stream")`` or ``Timestamp("2026-01-01T00:00:00Z")``; a mapping such as
        ``{"timestamp": "{{ data_interval_start }}"}`` is templated. A DAG has such intervals with a
        timetable like ``CronDataIntervalTimetable``, and not with ``@daily``
    :param before: the point at which the changes begin, inclusive; version 0 is allowed too
        (templated like ``at``)
    :param end: the last point, inclusive; by default the present (templated like ``at``)
    :param information: ``default`` or ``append_only`` (templated)
    :param column_style: ``snowflake`` or ``databend`` (templated)
    :param file_format: ``delta``, ``parquet``, ``csv``, ``json`` or ``orc`` (templated)
    :param mode: ``overwrite``, ``append`` (only for Delta tables) or ``error`` (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "source",
        "target",
        "at",
        "before",
        "end",
        "information",
        "column_style",
        "file_format",
        "mode",
        "conn_id",
    )

    def __init__(
        self,
        *,
        source: str,
        target: str,
        at: Point | Mapping[str, Any] | None = None,
        before: Point | Mapping[str, Any] | None = None,
        end: Point | Mapping[str, Any] | None = None,
        information: str = "default",
        column_style: str = ColumnStyle.SNOWFLAKE.value,
        file_format: str = jobs.ExportFormat.DELTA.value,
        mode: str = jobs.ExportMode.OVERWRITE.value,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.target = target
        self.at = at
        self.before = before
        self.end = end
        self.information = information
        self.column_style = column_style
        self.file_format = file_format
        self.mode = mode

    def execute(self, context: Context) -> dict[str, Any]:
        """Export the changes.

        :raises AirflowFailException: an argument is wrong, or the changes cannot be determined
        :raises CdcJobFailed: a retry may help
        """
        self.export(self._task(context), context)
        return {"source": self.source, "target": self.target, "format": self.file_format}

    def _task(self, context: Context) -> jobs.ExportChanges:
        subject = f"changes of {self.source}"
        with task_errors():
            self._check_interval()
            return jobs.ExportChanges(
                name=self.source,
                target=self.target,
                export_id=once_for_run(context, self.source, self.target),
                at=point_json(self.at),
                before=point_json(self.before),
                end=point_json(self.end),
                information=self.information,
                column_style=parse_enum(subject, "column_style", ColumnStyle, self.column_style),
                format=parse_enum(subject, "file_format", jobs.ExportFormat, self.file_format),
                mode=parse_enum(subject, "mode", jobs.ExportMode, self.mode),
            )

    def _check_interval(self) -> None:
        """Refuse an interval that cannot have a change, because its export would empty the target.

        :raises InvalidRequest: it ends before it begins, or begins and ends at the same moment
        """
        subject = f"changes of {self.source}"
        start = bound_of(subject, point_of(self.at), point_of(self.before))
        end = bound_of(subject, point_of(self.end), None)
        if start is None or end is None:
            return
        check_order(subject, start, end)
        is_moment = start.is_inclusive and isinstance(end.point, Timestamp)
        if is_moment and as_mapping(start.point) == as_mapping(end.point):
            raise InvalidRequest(
                subject,
                "have the same start and end",
                cause=f"both are {end}",
                fix="if they are the run's data interval, give the DAG a timetable that has"
                " intervals, such as CronDataIntervalTimetable",
            )
