"""The tasks of jobs for change streams."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..engine.core.change_streams.definition import Int64As, OnDuplicateKey
from ..engine.core.change_streams.spec import ChangeStreamSpec
from ..engine.core.change_streams.value_capture import ValueCaptureType
from ..engine.core.change_streams.watches import Watch
from .job_task import JobTask


class CreateChangeStream(JobTask, frozen=True):
    """Create a change stream; see ``Engine.create_change_stream``."""

    spec: ChangeStreamSpec


class AlterChangeStream(JobTask, frozen=True):
    """Change what a change stream watches and captures; see ``Engine.alter_change_stream``.

    What is ``None`` stays as it is. If ``keeps_comment`` or ``keeps_target_rows``, these do too.
    """

    change_stream: str
    tables: dict[str, Watch] | None = None
    value_capture_type: ValueCaptureType | None = None
    retention: timedelta | None = None
    exclude_insert: bool | None = None
    exclude_update: bool | None = None
    exclude_delete: bool | None = None
    int64_as: Int64As | None = None
    on_duplicate_key: OnDuplicateKey | None = None
    target_rows: int | None = None
    keeps_target_rows: bool = True
    comment: str | None = None
    keeps_comment: bool = True

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Engine.alter_change_stream`` that change something."""
        given: dict[str, Any] = {
            "tables": self.tables,
            "value_capture_type": self.value_capture_type,
            "retention_period": self.retention,
            "exclude_insert": self.exclude_insert,
            "exclude_update": self.exclude_update,
            "exclude_delete": self.exclude_delete,
            "int64_as": self.int64_as,
            "on_duplicate_key": self.on_duplicate_key,
        }
        found = {name: value for name, value in given.items() if value is not None}
        if not self.keeps_target_rows:
            found["target_rows"] = self.target_rows
        if not self.keeps_comment:
            found["comment"] = self.comment
        return found


class AdvanceChangeStream(JobTask, frozen=True):
    """Seal and capture what is new; see ``Engine.advance_change_stream``."""

    change_stream: str


class DropChangeStream(JobTask, frozen=True):
    """Drop a change stream; see ``Engine.drop_change_stream``."""

    change_stream: str
    if_exists: bool = False


class ReadPartition(JobTask, frozen=True):
    """Apply ``statements`` to a partition that was handed out; see ``Engine.consume_partition``.

    Or call ``work``, a function that is named as ``package.module:function``; see
    ``Engine.process_partition``.
    """

    change_stream: str
    consumer: str
    token: str
    statements: tuple[str, ...] = ()
    work: str | None = None


ChangeStreamTask = (
    CreateChangeStream | AlterChangeStream | AdvanceChangeStream | DropChangeStream | ReadPartition
)
