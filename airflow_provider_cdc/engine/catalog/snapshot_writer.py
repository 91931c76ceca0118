"""Makes the status snapshot of what the monitor of streams found, and keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from ..core.model.alerts import Alert, ObjectiveState
from ..core.model.serialization import UnreadableStream
from ..core.monitoring.change_stream_lines import ChangeStreamLine
from ..core.monitoring.lag_history import KEPT_FOR
from ..core.monitoring.moves import Move, move_of, with_moves
from ..core.monitoring.status_snapshot import StatusSnapshot
from ..core.monitoring.upsert_lines import USED_WITHIN, JobUse, UpsertLine, job_uses
from ..core.upserts.apply_schedule import recommended_max_staleness
from ..storage.files.stores import Files
from ..storage.registry.registry import Registry
from ..storage.state.apply_times import ApplyTimes
from ..storage.state.job_history import JobHistory
from ..storage.state.status_snapshots import StatusSnapshots
from .change_stream_catalog import ChangeStreamCatalog
from .objectives import Observation
from .stream_lines import by_trouble, line_of
from .target_lines import TargetLines
from .upsert_jobs import apply_watermark

_SHOWN_ALERTS = 200
# The clocks of other machines may be that much slower.
_OVERLAP = timedelta(minutes=5)

Findings = Sequence[tuple[Observation, Sequence[ObjectiveState]]]
"""What was read of each stream, with the status of each of its objectives."""


class SnapshotWriter:
    """Writes the status snapshots of a state folder.

    :param state: the state folder
    :param storage_options: how to reach the store
    """

    def __init__(
        self,
        state: str,
        storage_options: Mapping[str, Any] | None,
        clock: Callable[[], datetime],
    ) -> None:
        files = Files(storage_options)
        self._registry = Registry(state, storage_options=storage_options, clock=clock)
        self._snapshots = StatusSnapshots(state, files)
        self._change_streams = ChangeStreamCatalog(
            state, storage_options=storage_options, clock=clock
        )
        self._applies = ApplyTimes(state, files, clock)
        self._jobs = JobHistory(state, storage_options)
        self._targets = TargetLines(state, files)

    def write(
        self,
        findings: Findings,
        sent: Sequence[Alert],
        now: datetime,
    ) -> None:
        """Replace the snapshot by one of ``findings``, with the alerts that were sent now and
        before. If something else cannot be read, the snapshot says so.
        """
        before = self._snapshots.newest()
        known = {} if before is None else {line.stream_id: line for line in before.lines}
        earlier = () if before is None else before.alerts
        targets = {} if before is None else {line.location: line for line in before.targets}
        streams = [seen.stream for seen, _ in findings if seen.stream is not None]
        omitted: list[str] = []
        lines = (
            line_of(seen, states, known.get(seen.status.stream_id), now)
            for seen, states in findings
        )
        snapshot = StatusSnapshot(
            as_of=now,
            lines=tuple(by_trouble(lines)),
            alerts=(*reversed(sent), *earlier)[:_SHOWN_ALERTS],
            upsert_tables=tuple(self._upsert_lines(findings, now, omitted)),
            change_streams=tuple(self._change_stream_lines(omitted)),
            targets=tuple(self._targets.read(streams, targets, omitted)),
            omitted=tuple(omitted),
        )
        self._snapshots.save(snapshot)
        self._save_moves(None if before is None else before.as_of, snapshot)

    def _save_moves(self, last: datetime | None, snapshot: StatusSnapshot) -> None:
        """Add the moves since the last snapshot to those that are kept."""
        since = snapshot.as_of - KEPT_FOR if last is None else last - _OVERLAP
        found: dict[str, list[Move]] = {}
        for record in self._registry.history_since(since):
            if isinstance(record.stream, UnreadableStream):
                continue
            move = move_of(record.stream, record.transition, record.at, record.actor)
            if move is not None:
                found.setdefault(record.stream.stream_id, []).append(move)
        known = self._snapshots.moves()
        stream_ids = {line.stream_id for line in snapshot.lines}
        moves = with_moves(known, found, stream_ids, snapshot.as_of)
        if moves != known:
            self._snapshots.save_moves(moves)

    def _upsert_lines(
        self, findings: Findings, now: datetime, omitted: list[str]
    ) -> list[UpsertLine]:
        tables = [seen for seen, _ in findings if seen.upsert_table is not None]
        if not tables:
            return []
        uses: Mapping[str, tuple[JobUse, ...]] = {}
        with _noted(omitted, "the jobs of upsert tables"):
            uses = job_uses(self._jobs.read(now - USED_WITHIN))
        took = self._applies.read(seen.status.stream_id for seen in tables)
        found = []
        for seen in tables:
            status, recommended = (
                seen.status,
                recommended_max_staleness(took[seen.status.stream_id]),
            )
            watermark = None if seen.stream is None else apply_watermark(seen.stream, status)
            found.append(
                UpsertLine(
                    name=str(seen.upsert_table),
                    stream_id=status.stream_id,
                    max_staleness_seconds=None
                    if status.max_lag is None
                    else status.max_lag.total_seconds(),
                    watermark=watermark,
                    pending_since=status.behind_since,
                    pending_commits=status.commits_behind,
                    pending_bytes=status.bytes_behind,
                    quarantined_changes=None
                    if seen.quarantine is None
                    else seen.quarantine.changes,
                    recommended_max_staleness_seconds=None
                    if recommended is None
                    else recommended.total_seconds(),
                    jobs=uses.get(str(seen.upsert_table), ()),
                    problem=status.invalid_reason,
                )
            )
        return sorted(found, key=lambda line: line.name)

    def _change_stream_lines(self, omitted: list[str]) -> list[ChangeStreamLine]:
        found: list[ChangeStreamLine] = []
        with _noted(omitted, "the change streams"):
            found.extend(self._change_streams.change_stream_lines())
        return found


@contextmanager
def _noted(omitted: list[str], what: str) -> Iterator[None]:
    """Append ``what`` and the error to ``omitted`` if the block fails."""
    try:
        yield
    except Exception as error:
        omitted.append(f"{what}: {type(error).__name__}: {error}")
