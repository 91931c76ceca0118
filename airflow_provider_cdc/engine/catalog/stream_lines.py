"""The lines of the status snapshot, from the statuses that the monitor read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ..core.change_sets.read_plan import ReadPlan
from ..core.change_streams.source_streams import change_stream_of
from ..core.model.alerts import ObjectiveState
from ..core.model.stream import Stream
from ..core.monitoring.advice import advice_on
from ..core.monitoring.conditions import Condition, condition_of
from ..core.monitoring.status_snapshot import (
    OpenConsumption,
    PlanLine,
    StreamLine,
    TableLine,
    VerificationLine,
)
from ..core.shown_values import without_credentials
from ..core.verification.proof import VerificationState
from .objectives import Observation
from .stream_status import BaseStatus


def line_of(
    seen: Observation, states: Sequence[ObjectiveState], known: StreamLine | None, as_of: datetime
) -> StreamLine:
    """The line of one stream.

    :param states: of its objectives
    :param known: its line in the last snapshot
    """
    status = seen.status
    condition, problem = condition_of(
        states, status.phase, is_stale=status.stale, may_have_data=status.may_have_data
    )
    is_same = known is not None and known.condition is condition
    return StreamLine(
        stream_id=status.stream_id,
        name=status.name,
        source=status.table_on,
        mode=None if status.mode is None else status.mode.value,
        condition=condition,
        condition_since=known.condition_since if known is not None and is_same else as_of,
        problem=problem,
        advice=advice_on(
            condition,
            status.name,
            can_be_read=status.invalid_reason is None,
            last_consumer=status.last_consumer,
            upsert_table=seen.upsert_table,
        ),
        commits_behind=status.commits_behind,
        bytes_behind=status.bytes_behind,
        waiting_since=status.behind_since,
        max_lag_seconds=None if status.max_lag is None else status.max_lag.total_seconds(),
        stale_after=status.stale_after,
        kept_until=status.kept_until,
        complete_through=status.complete_through,
        created_at=status.created_at,
        last_consumed_at=status.last_consumed_at,
        last_consumer=status.last_consumer,
        owner=status.owner,
        comment=status.comment,
        consumption=None if seen.stream is None else _open_consumption(seen.stream),
        upsert_table=seen.upsert_table,
        change_stream=change_stream_of(status.name, status.comment),
        tables=tuple(map(_table_line, status.base_tables)),
        verifications=tuple(map(_verification_line, seen.verifications)),
        plan=None if seen.plan is None else _plan_line(seen.plan),
    )


def by_trouble(lines: Iterable[StreamLine]) -> list[StreamLine]:
    """``lines``, the worst condition first. Of equal conditions, the one that waits longest."""
    order = list(Condition)

    def key(line: StreamLine) -> tuple[int, float, str]:
        waits = line.waiting_since
        return (
            order.index(line.condition),
            float("inf") if waits is None else waits.timestamp(),
            line.name,
        )

    return sorted(lines, key=key)


def _table_line(base: BaseStatus) -> TableLine:
    return TableLine(
        table=without_credentials(base.table),
        location=without_credentials(base.location),
        offset_version=base.offset_version,
        latest_version=base.latest_version,
        commits_behind=base.commits_behind,
        bytes_behind=base.bytes_behind,
        problem=base.invalid_reason,
    )


def _verification_line(check: VerificationState) -> VerificationLine:
    return VerificationLine(
        target=without_credentials(check.target),
        verified_through=check.verified_through,
        checked_at=check.checked_at,
        checked_version=check.checked_version,
        differing_keys=check.differing_keys,
    )


def _plan_line(plan: ReadPlan) -> PlanLine:
    return PlanLine(
        strategy=plan.strategy.value,
        file_count=plan.file_count,
        size_bytes=plan.size_bytes,
        commit_count=plan.commit_count,
        reason=plan.reason,
    )


def _open_consumption(stream: Stream) -> OpenConsumption | None:
    found = stream.consumption
    if found is None:
        return None
    return OpenConsumption(
        found.consumption_id, found.consumer, found.begun_at, attempts=found.attempts
    )
