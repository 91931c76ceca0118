"""The stream that a caller asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from ..arguments.choices import parse_enum
from ..arguments.intervals import interval_if_given, interval_of
from ..arguments.points import Bound, bound_of, point_json, point_of
from ..retention.staleness import MAX_DATA_EXTENSION
from .access import principals
from .stream import AppendSemantics, ColumnStyle, StreamMode, parse_mode


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """A stream to create; see ``Engine.create_stream`` for the fields.

    ``at`` and ``before`` are points as :func:`point_json` returns them.
    """

    name: str
    on_table: str | None = None
    on_view: str | None = None
    on_files: str | None = None
    file_format: str | None = None
    file_options: Mapping[str, Any] | None = None
    file_schema: str | None = None
    mode: StreamMode = StreamMode.STANDARD
    append_semantics: AppendSemantics = AppendSemantics.INSERTED
    column_style: ColumnStyle = ColumnStyle.SNOWFLAKE
    at: dict[str, int | str] | None = None
    before: dict[str, int | str] | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    show_initial_rows: bool = False
    comment: str | None = None
    owner: str | None = None
    readers: tuple[str, ...] | None = None
    consumers: tuple[str, ...] | None = None
    max_data_extension: timedelta = MAX_DATA_EXTENSION
    max_lag: timedelta | None = None

    @classmethod
    def parsed(cls, **given: Any) -> StreamSpec:
        """The spec of the arguments of ``Engine.create_stream``, as a caller writes them.

        :raises InvalidRequest: a value has a form that its argument does not accept
        """
        subject = f"stream {given['name']}"
        read = {
            "mode": parse_mode(subject, given["mode"], given["on_files"]),
            "append_semantics": parse_enum(
                subject, "append_semantics", AppendSemantics, given["append_semantics"]
            ),
            "column_style": parse_enum(subject, "column_style", ColumnStyle, given["column_style"]),
            "at": point_json(given["at"]),
            "before": point_json(given["before"]),
            "readers": principals(given["readers"]),
            "consumers": principals(given["consumers"]),
            "max_data_extension": interval_of(given["max_data_extension"], "max_data_extension"),
            "max_lag": interval_if_given(given["max_lag"], "max_lag"),
        }
        return cls(**given | read)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Engine.create_stream`` for this spec."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return given | {"at": point_of(self.at), "before": point_of(self.before)}

    @property
    def subject(self) -> str:
        """The subject of messages."""
        return f"stream {self.name}"

    @property
    def bound(self) -> Bound | None:
        """The point at which the stream begins; ``None``: the newest version.

        :raises InvalidRequest: there are two points
        """
        return bound_of(self.subject, point_of(self.at), point_of(self.before))
