"""The status of upsert tables, and the part of it that needs no Spark."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from rich.filesize import decimal

from ..core.arguments.intervals import interval_text
from ..core.delta.log_actions import DataFile
from ..core.figures import counted
from ..core.model.stream import Stream
from ..core.summaries import moment_text, place_text
from ..core.upserts.definition import base_location, quarantine_location
from ..core.upserts.quarantine_size import QuarantineSize, quarantine_size
from ..storage.delta.table_snapshots import newest_snapshot
from ..storage.files.stores import Files
from .stream_status import StreamStatus
from .upsert_jobs import apply_watermark

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpsertTableStatus:
    """The status of an upsert table.

    BigQuery: all changes up to ``upsert_stream_apply_watermark`` are applied. Here that means:
    every change that was ingested at or before it is applied or in quarantine, and the watermark
    never goes back. ``max_staleness`` and ``tombstone_horizon`` are in BigQuery's format of
    intervals and in words: ``0-0 0 0:10:0 (10 minutes)``. ``pending_since`` is the time at which
    the oldest waiting change was ingested. ``held_changes`` counts the changes that are in
    quarantine because they are bad or follow a bad change of their key. ``late_changes`` counts the
    changes that are in quarantine because they are older than a delete whose tombstone has ended.
    ``held_since`` is the time at which the write of the oldest change in quarantine that is not
    late began. It also considers redriven changes that are not applied yet. ``None``: there is no
    such change, and all changes up to the watermark are applied, except late ones. During an apply
    that takes redriven changes, ``held_since`` may already leave them out.
    """

    name: str
    location: str
    primary_key: tuple[str, ...]
    max_staleness: str | None
    tombstone_horizon: str
    upsert_stream_apply_watermark: datetime
    pending_since: datetime | None
    pending_commits: int
    pending_bytes: int
    held_changes: int
    held_since: datetime | None
    late_changes: int
    stream: str

    def __repr__(self) -> str:
        held = self.held_changes + self.late_changes
        return f"<UpsertTableStatus {_summary_text(self, held)}>"


@dataclass(frozen=True, slots=True)
class UpsertTableSummary:
    """What the logs show of an upsert table, by the name that it was created with. The fields are
    those of :class:`UpsertTableStatus`. ``quarantined_changes`` counts all changes in quarantine:
    held, late, or redriven and not applied yet. ``None``: the log of the quarantine does not show
    it. The counts of waiting changes are ``None`` if they can no longer be determined, and
    ``invalid_reason`` gives the reason.
    """

    name: str
    location: str
    max_staleness: str | None
    upsert_stream_apply_watermark: datetime
    pending_since: datetime | None
    pending_commits: int | None
    pending_bytes: int | None
    quarantined_changes: int | None
    invalid_reason: str | None
    stream: str

    def __repr__(self) -> str:
        return f"<UpsertTableSummary {_summary_text(self, self.quarantined_changes)}>"


def _summary_text(status: UpsertTableStatus | UpsertTableSummary, held: int | None) -> str:
    """The apply watermark of a table, what waits, and how many changes are in quarantine."""
    applied = moment_text(status.upsert_stream_apply_watermark)
    commits, size = status.pending_commits, status.pending_bytes
    waits = (
        "the waiting changes are unknown"
        if commits is None or size is None
        else f"{counted(commits, 'commit')} waiting ({decimal(size)})"
        if commits
        else "nothing waits"
    )
    quarantine = f", {counted(held, 'change')} in quarantine" if held else ""
    return f"{place_text(status.name)}, applied up to {applied}, {waits}{quarantine}"


def summary_of(stream: Stream, status: StreamStatus, files: Files) -> UpsertTableSummary:
    """What the logs show of an upsert table.

    :param stream: the stream on its changes
    :param status: the status of ``stream``
    """
    quarantine = quarantine_of(stream, files)
    return UpsertTableSummary(
        name=str(stream.upsert_table),
        location=base_location(stream.source.location),
        max_staleness=None if stream.max_lag is None else interval_text(stream.max_lag),
        upsert_stream_apply_watermark=apply_watermark(stream, status),
        pending_since=status.behind_since,
        pending_commits=status.commits_behind,
        pending_bytes=status.bytes_behind,
        quarantined_changes=None if quarantine is None else quarantine.changes,
        invalid_reason=status.invalid_reason,
        stream=stream.name,
    )


def quarantine_of(stream: Stream, files: Files) -> QuarantineSize | None:
    """The size of the quarantine of an upsert table, from its log; ``None``: it cannot be read.

    :param stream: on the changes of the table
    """
    try:
        found = newest_snapshot(quarantine_location(stream.source.location), files)
    except Exception as error:
        log.warning("The quarantine of %s cannot be read: %s", stream.upsert_table, error)
        return None
    return quarantine_size(map(DataFile.of, found.files))
