"""Ending a consumption that its own driver did not end: roll forward, fence, undo, abort."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from ..core.errors import ConsumptionOpen, InvalidRequest, OutcomeUnknown
from ..core.lifecycle import Transition
from ..core.model import (
    Consumption,
    Phase,
    PlannedStatement,
)
from ..core.progress import Listener, Progress, ProtocolPoint
from ..core.transactions import StatementState
from ..storage.consumptions import Consumptions
from .targets import Targets, UndoneTooMuch, first_version

log = logging.getLogger(__name__)


class Resolution:
    """Resolves open consumptions by what the logs of their targets tell.

    What a transaction left open is always undone: the logs cannot tell whether it was complete.
    Whoever resolves one first marks it in the registry, so that its own driver, if it still lives,
    cannot commit any more; then fences the statements that were not applied, so that it cannot
    apply them either.
    """

    def __init__(self, consumptions: Consumptions, targets: Targets, listener: Listener) -> None:
        self._consumptions = consumptions
        self._targets = targets
        self._listener = listener

    def take_over(self, consumption: Consumption, actor: str) -> None:
        """End ``consumption`` of another attempt: commit it where all of it was applied, else
        undo it.

        :raises ConsumptionOpen: it is partly applied and a target has moved on
        :raises StreamConflict: somebody else moved it meanwhile
        """
        self._end(consumption, actor, keep=(), fence=True)

    def abort(self, consumption: Consumption, actor: str, keep: Collection[str]) -> None:
        """End ``consumption`` without committing it.

        :param keep: quoted names of the targets where what was applied is left as it is
        :raises InvalidRequest: one of them is no target of the consumption
        """
        targets = {planned.target for planned in consumption.statements}
        if unknown := sorted(set(keep) - targets):
            raise InvalidRequest(
                f"consumption {consumption.consumption_id}",
                f"has no target {', '.join(unknown)}",
                cause=f"its targets are {', '.join(sorted(targets))}",
                fix="name the targets to keep as the statements do",
            )
        self._end(consumption, actor, keep=keep, fence=True, roll_forward=False)

    def fail(self, consumption: Consumption, actor: str, *, has_ended: bool) -> bool:
        """Leave nothing of ``consumption`` behind after one of its statements failed.

        Its own driver calls this. Returns whether it was rolled forward after all, because another
        driver of the same consumption applied the rest.

        :param has_ended: the failed statement certainly runs no more; then a fence is needed only
            where another driver has worked on the consumption
        """
        return self._end(consumption, actor, keep=(), fence=not has_ended)

    def _end(
        self,
        consumption: Consumption,
        actor: str,
        *,
        keep: Collection[str],
        fence: bool,
        roll_forward: bool = True,
    ) -> bool:
        phase = self._consumptions.phase(consumption)
        roll_forward = (
            roll_forward and phase is not Phase.ABORTING and not consumption.is_open_ended
        )
        if phase is Phase.APPLYING:
            states = self._states(consumption, keep)
            if roll_forward and _all_applied(states):
                self._commit(consumption, actor)
                return True
            self._check_undoable(consumption, _by_location(consumption, states, keep))
        mark = Transition.RESOLVING if roll_forward else Transition.ABORTING
        # Whoever resumed it did so before this move: epoch and number of attempts are final now.
        consumption = self._consumptions.move(consumption, mark, actor)
        fence = fence or consumption.attempts > 1
        states = self._states(consumption, keep)
        if fence:
            states = self._fence(consumption, states)
        if roll_forward and _all_applied(states):
            self._commit(consumption, actor)
            return True
        self._undo(consumption, states, actor, keep)
        self._consumptions.move(consumption, Transition.ABORTED, actor)
        left = (
            f"what it wrote to {', '.join(sorted(keep))} stays" if keep else "nothing of it stays"
        )
        log.info(
            "stream %s: the consumption that %s began was ended, no offset moved, %s",
            consumption.stream_names,
            consumption.consumer,
            left,
        )
        return False

    def _commit(self, consumption: Consumption, actor: str) -> None:
        self._consumptions.move(consumption, Transition.COMMITTED, actor)
        log.info(
            "stream %s: the consumption that %s began was applied already, and is committed now",
            consumption.stream_names,
            consumption.consumer,
        )

    def _states(self, consumption: Consumption, keep: Collection[str]) -> list[StatementState]:
        """What became of every statement; a target to keep may tell nothing any more."""
        states = []
        for planned in consumption.statements:
            try:
                states.append(self._targets.log.state(consumption, planned))
            except (ConsumptionOpen, OutcomeUnknown):
                if planned.target not in keep:
                    raise
                states.append(StatementState(planned.index, None, fenced=True))
        return states

    def _check_undoable(
        self,
        consumption: Consumption,
        to_undo: Sequence[Sequence[tuple[PlannedStatement, StatementState]]],
    ) -> None:
        for applied in to_undo:
            self._targets.check_not_moved_on(consumption, applied[0][0], first_version(applied))

    def _fence(
        self, consumption: Consumption, states: Sequence[StatementState]
    ) -> list[StatementState]:
        fenced = []
        for planned, state in zip(consumption.statements, states, strict=True):
            if state.applied_version is not None or state.fenced:
                fenced.append(state)
                continue
            self._tell(ProtocolPoint.BEFORE_FENCE, consumption, planned)
            fenced.append(self._targets.fence(consumption, planned))
            self._tell(ProtocolPoint.AFTER_FENCE, consumption, planned)
        return fenced

    def _undo(
        self,
        consumption: Consumption,
        states: Sequence[StatementState],
        actor: str,
        keep: Collection[str],
    ) -> None:
        to_undo = _by_location(consumption, states, keep)
        try:
            for planned in consumption.statements:
                # Whoever undid it before may have ended between the undo and its check.
                if planned.target not in keep:
                    self._targets.check_undone(consumption, planned)
            self._check_undoable(consumption, to_undo)
            for applied in to_undo:
                self._tell(ProtocolPoint.BEFORE_UNDO, consumption, applied[0][0])
                self._targets.undo(
                    consumption, applied, lambda: self._consumptions.check_ending(consumption)
                )
                self._tell(ProtocolPoint.AFTER_UNDO, consumption, applied[0][0])
        except UndoneTooMuch:
            # As long as it is not ended by hand, every attempt says so.
            raise
        except ConsumptionOpen:
            # What is fenced can only be applied under a new epoch, so that its consumer may finish.
            self._consumptions.move(consumption, Transition.REOPENED, actor)
            raise

    def _tell(
        self, point: ProtocolPoint, consumption: Consumption, planned: PlannedStatement
    ) -> None:
        self._listener(
            Progress(point, consumption.consumer, consumption.consumption_id, planned.index)
        )


def _all_applied(states: Sequence[StatementState]) -> bool:
    return all(state.applied_version is not None and state.taken_at is None for state in states)


def _by_location(
    consumption: Consumption, states: Sequence[StatementState], keep: Collection[str]
) -> list[list[tuple[PlannedStatement, StatementState]]]:
    """The applied statements, those of one target together, without the targets to keep.

    What was applied last comes first: a table that statements call by several names makes several
    groups, and an undo brings the table back as it was before its own first statement.
    """
    groups: dict[str, list[tuple[PlannedStatement, StatementState]]] = {}
    for planned, state in zip(consumption.statements, states, strict=True):
        if state.applied_version is not None and planned.target not in keep:
            groups.setdefault(planned.location, []).append((planned, state))
    return sorted(groups.values(), key=first_version, reverse=True)
