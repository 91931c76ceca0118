"""The operators that repair or copy a stream: they abort its consumption, rewind it, alter it,
restore it after a drop, or clone it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.arguments.one_or_several import one_or_several
from airflow_provider_cdc.engine.core.arguments.points import Point, point_json
from airflow_provider_cdc.engine.core.arguments.validation import KEPT, Kept
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.model.access import Right
from airflow_provider_cdc.hooks.registry_reach import reached_errors
from airflow_provider_cdc.jobs import model as jobs

from .arguments import parse_duration
from .base import StreamOperator
from .outcome import stream_result

if TYPE_CHECKING:
    from airflow.sdk import Context


class AbortConsumption(StreamOperator):
    """Abort the open consumption of a stream: undo what was applied, and do not move the offset.

    Use it if a consumer can neither finish nor undo its consumption, because another process wrote
    to a target in the meantime. If no consumption is open, it does nothing and starts no Spark job.
    So a retry is safe. A retry aborts any consumption that is open at that time.

    Returns (XCom) ``stream``, ``stream_id``, ``source``, ``mode`` and ``offset_version``.

    :param stream: the name of the stream; for a consumption of several streams, one of them
        (templated)
    :param keep: the target or targets on which nothing is undone, by their names in the statements
        (templated). The next consumption applies the same changes to them again
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("stream", "keep", "conn_id")

    def __init__(self, *, stream: str, keep: str | Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.keep = keep

    def execute(self, context: Context) -> dict[str, Any]:
        """Abort the consumption.

        :raises AirflowFailException: the stream is missing, the principal may not abort it, or
            ``keep`` names a table that is not a target of the consumption
        :raises CdcJobFailed: a retry may help; or a target that is not in ``keep`` changed in the
            meantime
        """
        with reached_errors(self.hook):
            keep = one_or_several(f"stream {self.stream}", "keep", self.keep)
            stream = self.hook.catalog().permitted(self.stream, Right.ABORT)
        if stream.consumption is None:
            self.log.info("Stream %s has no open consumption", stream.name)
            return stream_result(stream)
        task = jobs.AbortConsumption(self.stream, keep)
        return stream_result(self.hook.submit(task, context=context).stream)


class RewindStream(StreamOperator):
    """Move a stream back to an earlier point. It returns the changes after this point again.

    Returns (XCom) the same as :class:`AbortConsumption`.

    :param stream: the name of the stream (templated)
    :param to: the point after which the changes of the stream begin: ``Version(3)``,
        ``OffsetOf("other")`` or ``Timestamp("2026-01-01T00:00:00Z")``; a mapping such as
        ``{"version": "{{ ... }}"}`` is templated
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("stream", "to", "conn_id")

    def __init__(self, *, stream: str, to: Point | Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.to = to

    def execute(self, context: Context) -> dict[str, Any]:
        """Move the stream back. A retry moves it to the same point.

        :raises AirflowFailException: the stream is missing, the principal may not consume it, or it
            cannot be read from that point on
        :raises CdcJobFailed: a retry may help, for example if a consumption of it is open
        """
        with reached_errors(self.hook):
            to = point_json(self.to)
            if to is None:
                raise InvalidRequest(
                    f"stream {self.stream}",
                    "cannot be moved back",
                    cause="no point was given",
                    fix="pass to=Version(3), or a mapping such as {'timestamp': '{{ ts }}'}",
                )
            self.hook.catalog().permitted(self.stream, Right.CONSUME)
        task = jobs.RewindStream(self.stream, to)
        return stream_result(self.hook.submit(task, context=context).stream)


class AlterStream(StreamOperator):
    """Change the attributes of a stream. Attributes that are not given stay unchanged. No Spark job
    is started.

    Returns (XCom) the same as :class:`AbortConsumption`.

    :param stream: the name of the stream (templated)
    :param comment: the new comment; ``None``: no comment (templated)
    :param stream_owner: the principal that becomes the owner (templated)
    :param readers: the principals that may read it besides its owner; ``None``: all (templated)
    :param consumers: the principals that may consume it besides its owner; ``None``: its readers
        (templated)
    :param max_data_extension: how long its sources may be extended to keep what it has not
        consumed, a duration or text such as ``P14D`` (templated)
    :param max_lag: how old a change may get before the monitor of streams sends an alert, in the
        same forms; ``None``: any age (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "stream",
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
        comment: str | Kept | None = KEPT,
        stream_owner: str | Kept = KEPT,
        readers: Sequence[str] | Kept | None = KEPT,
        consumers: Sequence[str] | Kept | None = KEPT,
        max_data_extension: timedelta | str | Kept = KEPT,
        max_lag: timedelta | str | Kept | None = KEPT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.comment = comment
        self.stream_owner = stream_owner
        self.readers = readers
        self.consumers = consumers
        self.max_data_extension = max_data_extension
        self.max_lag = max_lag

    def execute(self, context: Context) -> dict[str, Any]:
        """Alter the stream. A retry alters it in the same way again.

        :raises AirflowFailException: the stream is missing, the principal does not own it, or an
            argument is wrong
        :raises CdcJobFailed: a consumption of it is open
        """
        with reached_errors(self.hook):
            extension = parse_duration(self.max_data_extension, "max_data_extension")
            altered = self.hook.catalog().alter_stream(
                self.stream,
                comment=self.comment,
                owner=self.stream_owner,
                readers=self.readers,
                consumers=self.consumers,
                max_data_extension=KEPT if extension is None else extension,
                max_lag=parse_duration(self.max_lag, "max_lag"),
            )
        return stream_result(altered)


class UndropStream(StreamOperator):
    """Restore the stream that was last dropped under a name, at the offset that it had. No Spark
    job is started.

    Returns (XCom) the same as :class:`AbortConsumption`.

    :param stream: the name of the stream (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("stream", "conn_id")

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream

    def execute(self, context: Context) -> dict[str, Any]:
        """Restore the stream.

        :raises AirflowFailException: no stream was dropped under that name, or a stream of that
            name exists, for example because an earlier attempt restored it
        """
        with reached_errors(self.hook):
            return stream_result(self.hook.catalog().undrop_stream(self.stream))


class CloneStream(StreamOperator):
    """Create a stream at the same offset as another one. Afterwards the two offsets move
    independently. No Spark job is started.

    Returns (XCom) the same as :class:`AbortConsumption`, for the new stream.

    :param stream: the name of the new stream (templated)
    :param of: the name of the stream to clone (templated)
    :param comment: the comment of the new stream (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("stream", "of", "comment", "conn_id")

    def __init__(self, *, stream: str, of: str, comment: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.of = of
        self.comment = comment

    def execute(self, context: Context) -> dict[str, Any]:
        """Clone the stream.

        :raises AirflowFailException: the stream to clone is missing, or the principal may not read
            it; or a stream of the new name exists, for example because an earlier attempt created
            it
        """
        with reached_errors(self.hook):
            cloned = self.hook.catalog().clone_stream(self.stream, self.of, comment=self.comment)
        return stream_result(cloned)
