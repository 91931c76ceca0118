"""The jobs of upsert tables, in a Delta table ``upsert_jobs`` of the state folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError

from ...core.arguments.validation import validated_call
from ...core.errors import InvalidRequest
from ...core.upserts.job_records import Job
from ..files.best_effort import log_failures
from ..registry.registry_table import NO_HOOKS, table_location

logger = logging.getLogger(__name__)

TABLE = "upsert_jobs"
KEPT_FOR = timedelta(days=180)

_SCHEMA = pa.schema(
    [
        ("job_id", pa.string()),
        ("job_class", pa.string()),
        ("table", pa.string()),
        ("started_at", pa.timestamp("us", "UTC")),
        ("ended_at", pa.timestamp("us", "UTC")),
        ("rows", pa.int64()),
        ("read_bytes", pa.int64()),
        ("slot_ms", pa.int64()),
        ("principal", pa.string()),
    ]
)
_TRIES = 3
_COMMITS_PER_UPKEEP = 64
_VACUUM_HOURS = 24


class JobHistory:
    """The job history of a state folder.

    :param state: the state folder
    :param storage_options: how to reach the store
    """

    @validated_call
    def __init__(self, state: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._location = table_location(state, TABLE)
        self._options = dict(storage_options or {})

    def record(self, job: Job) -> None:
        """Add a job. An error is only logged, because the job itself is done."""
        with log_failures(f"record of job {job.job_id} of {job.table}", logging.WARNING):
            self._append(job)
            table = self._open()
            if table.version() % _COMMITS_PER_UPKEEP == 0:
                _keep_up(table, job.ended_at - KEPT_FOR)

    def read(self, since: datetime) -> list[Job]:
        """The jobs that ended at ``since`` or later, sorted by their start."""
        if not DeltaTable.is_deltatable(self._location, self._options):
            return []
        found = pa.table(self._open().to_pyarrow_table(filters=[("ended_at", ">=", since)]))
        rows = found.sort_by("started_at").to_pylist()
        return [job for row in rows if (job := _job_of(row)) is not None]

    def _append(self, job: Job) -> None:
        row = _row_of(job)
        for tries_left in reversed(range(_TRIES)):
            try:
                write_deltalake(
                    self._location,
                    row,
                    mode="append",
                    storage_options=self._options,
                    writer_properties=WriterProperties(compression="ZSTD"),
                    post_commithook_properties=NO_HOOKS,
                )
            except DeltaError:
                # Two processes may create the table at once.
                if not tries_left:
                    raise
            else:
                return

    def _open(self) -> DeltaTable:
        return DeltaTable(self._location, storage_options=self._options)


def _row_of(job: Job) -> pa.Table:
    """The row of a job, which :func:`_job_of` reads back equal.

    :raises InvalidRequest: it would be read back differently
    """
    row = pa.Table.from_pylist([asdict(job)], schema=_SCHEMA)
    found = _job_of(row.to_pylist()[0])
    if found != job:
        raise InvalidRequest(
            f"job {job.job_id}",
            "cannot be recorded, nothing was written",
            cause=f"expected to read back {job}, found {found}",
            fix="record a job whose fields have the types that Job declares",
        )
    return row


def _job_of(row: Mapping[str, Any]) -> Job | None:
    """The job of a row; ``None`` if it cannot be read, which is logged."""
    try:
        return msgspec.convert(row, Job)
    except msgspec.ValidationError as error:
        logger.warning("Job %s cannot be read and is skipped: %s", row.get("job_id"), error)
        return None


def _keep_up(table: DeltaTable, oldest: datetime) -> None:
    """Compact the files, shorten the log, and delete the jobs that ended before ``oldest``."""
    # A plain timestamp has nanoseconds, and Delta's statistics do not.
    moment = f"""arrow_cast('{oldest.isoformat()}', 'Timestamp(Microsecond, Some("UTC"))')"""
    table.delete(f"ended_at < {moment}")
    # Two compactions of the same files would double their rows. Delta refuses the second because of
    # this id.
    once = CommitProperties(app_transactions=[Transaction("upkeep", table.version())])
    table.optimize.compact(commit_properties=once, post_commithook_properties=NO_HOOKS)
    table.create_checkpoint()
    table.vacuum(_VACUUM_HOURS, dry_run=False, enforce_retention_duration=False)
    table.cleanup_metadata()
