"""The tasks of jobs for upsert tables."""

from __future__ import annotations

from datetime import timedelta

from ..engine.core.debezium.envelope import UNAVAILABLE
from ..engine.core.upserts.definition import TOMBSTONE_HORIZON, OnBadRows
from .job_task import JobTask


class CreateUpsertTable(JobTask, frozen=True):
    """Create an upsert table; see ``Engine.create_upsert_table`` for the arguments."""

    table: str
    schema: str
    primary_key: tuple[str, ...]
    max_staleness: timedelta | None = None
    tombstone_horizon: timedelta = TOMBSTONE_HORIZON
    cluster_by: tuple[str, ...] | None = None
    partial_changes: bool = False
    if_not_exists: bool = False


class AlterUpsertTable(JobTask, frozen=True):
    """Change the intervals of the upsert table ``table``; see ``Engine.alter_upsert_table``.

    If ``keeps_max_staleness``, the table keeps its ``max_staleness``. If ``tombstone_horizon`` is
    ``None``, the table keeps its horizon.
    """

    table: str
    max_staleness: timedelta | None
    keeps_max_staleness: bool = False
    tombstone_horizon: timedelta | None = None


class AddColumns(JobTask, frozen=True):
    """Add the columns of ``schema`` to the upsert table ``table``; see ``Engine.add_columns``."""

    table: str
    schema: str


class DropUpsertTable(JobTask, frozen=True):
    """Drop the upsert table ``table``; see ``Engine.drop_upsert_table``."""

    table: str
    if_exists: bool = False


class WriteChanges(JobTask, frozen=True):
    """Write the rows of ``query`` as changes of the upsert table ``table``; see
    ``Engine.write_changes``. A second write with the same ``write_id`` writes nothing.
    """

    table: str
    query: str
    write_id: str
    on_bad_rows: OnBadRows = OnBadRows.FAIL
    payload: str | None = None
    sequence_by: str | None = None
    unavailable_value: str = UNAVAILABLE


class ApplyUpserts(JobTask, frozen=True):
    """Apply the changes that wait for the upsert table ``table``; see ``Engine.apply_upserts``."""

    table: str


class RedriveChanges(JobTask, frozen=True):
    """Redrive the changes in quarantine of ``table``; see ``Engine.redrive_changes``."""

    table: str
    late: bool = False


UpsertTask = (
    CreateUpsertTable
    | AlterUpsertTable
    | AddColumns
    | DropUpsertTable
    | WriteChanges
    | ApplyUpserts
    | RedriveChanges
)
