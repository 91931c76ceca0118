"""Ends a consumption that its own driver did not end: rolls forward, fences, undoes, aborts."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from ..core.consumption.statement_log import StatementState
from ..core.errors import ConsumptionOpen, InvalidRequest, OutcomeUnknown
from ..core.model.consumption import Consumption, PlannedStatement
from ..core.model.lifecycle import Transition
from ..core.model.stream import Phase
from ..core.progress import Listener, Progress, ProtocolPoint
from ..storage.delta.target_log import TargetLog
from ..storage.files.stores import Files
from ..storage.registry.consumptions import Consumptions
from .fences import Fences
from .ports import StatementWriter
from .undo import TargetUndo, UndoneTooMuch, first_version

log = logging.getLogger(__name__)


class Resolution:
    """Resolves open consumptions by the logs of their targets.

    An open transaction is always undone: the logs do not show whether it was complete. The resolver
    first marks the consumption in the registry. Then its own driver, if it still runs, can no
    longer commit it. After that the resolver fences the statements that were not applied, so that
    the driver cannot apply them either.
    """

    def __init__(
        self,
        consumptions: Consumptions,
        writer: StatementWriter,
        files: Files,
        listener: Listener,
    ) -> None:
        self._consumptions = consumptions
        self._log = TargetLog(files)
        self._fences = Fences(writer, self._log)
        self._target_undo = TargetUndo(writer, files, self._log)
        self._listener = listener

    def take_over(self, consumption: Consumption, actor: str) -> None:
        """End ``consumption`` of another attempt: commit it if all of it was applied, else undo it.

        :raises ConsumptionOpen: it is partly applied, and somebody else has written to a target
        :raises StreamConflict: somebody else moved it meanwhile
        """
        self._end(consumption, actor, keep=(), fence=True)

    def abort(self, consumption: Consumption, actor: str, keep: Collection[str]) -> None:
        """End ``consumption`` without committing it.

        :param keep: quoted names of the targets in which applied changes stay as they are
        :raises InvalidRequest: one of them is not a target of the consumption
        """
        targets = {planned.target for planned in consumption.statements}
        if unknown := sorted(set(keep) - targets):
            raise InvalidRequest(
                f"consumption {consumption.consumption_id}",
                f"has no target {', '.join(unknown)}",
                cause=f"its targets are {', '.join(sorted(targets))}",
                fix="name the targets in keep as the statements name them",
            )
        self._end(consumption, actor, keep=keep, fence=True, roll_forward=False)

    def fail(self, consumption: Consumption, actor: str, *, has_ended: bool) -> bool:
        """Undo all of ``consumption`` after one of its statements failed.

        Its own driver calls this. Returns whether it was rolled forward instead, because another
        driver of the same consumption applied the rest.

        :param has_ended: the failed statement certainly runs no longer; then a fence is needed only
            if another driver has worked on the consumption
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
        # Nobody can resume it after this move: epoch and number of attempts are final now.
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
            f"its changes to {', '.join(sorted(keep))} remain"
            if keep
            else "none of its changes remain"
        )
        log.info(
            "stream %s: ended the consumption that %s began; no offset moved, and %s",
            consumption.stream_names,
            consumption.consumer,
            left,
        )
        return False

    def _commit(self, consumption: Consumption, actor: str) -> None:
        self._consumptions.move(consumption, Transition.COMMITTED, actor)
        log.info(
            "stream %s: committed the consumption that %s began; it was already applied",
            consumption.stream_names,
            consumption.consumer,
        )

    def _states(self, consumption: Consumption, keep: Collection[str]) -> list[StatementState]:
        """The state of every statement. The log of a target to keep may no longer show it."""
        states = []
        for planned in consumption.statements:
            try:
                states.append(self._log.state(consumption, planned))
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
            self._target_undo.check_not_moved_on(consumption, applied[0][0], first_version(applied))

    def _fence(
        self, consumption: Consumption, states: Sequence[StatementState]
    ) -> list[StatementState]:
        fenced = []
        for planned, state in zip(consumption.statements, states, strict=True):
            if state.applied_version is not None or state.fenced:
                fenced.append(state)
                continue
            self._report(ProtocolPoint.BEFORE_FENCE, consumption, planned)
            fenced.append(self._fences.fence(consumption, planned))
            self._report(ProtocolPoint.AFTER_FENCE, consumption, planned)
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
                # An earlier driver may have ended between its undo and the check of the undo.
                if planned.target not in keep:
                    self._target_undo.check_undone(consumption, planned)
            self._check_undoable(consumption, to_undo)
            for applied in to_undo:
                self._report(ProtocolPoint.BEFORE_UNDO, consumption, applied[0][0])
                self._target_undo.undo(
                    consumption, applied, lambda: self._consumptions.check_ending(consumption)
                )
                self._report(ProtocolPoint.AFTER_UNDO, consumption, applied[0][0])
        except UndoneTooMuch:
            # Every attempt raises this until somebody ends the consumption by hand.
            raise
        except ConsumptionOpen:
            # Fenced statements can only be applied under a new epoch. With it the consumer may
            # finish them.
            self._consumptions.move(consumption, Transition.REOPENED, actor)
            raise

    def _report(
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
    """The applied statements in groups by target, without those of the targets to keep.

    The last applied group comes first. If statements use several names for one table, the table has
    several groups. The undo of a group brings the table back to the version before its first
    statement.
    """
    groups: dict[str, list[tuple[PlannedStatement, StatementState]]] = {}
    for planned, state in zip(consumption.statements, states, strict=True):
        if state.applied_version is not None and planned.target not in keep:
            groups.setdefault(planned.location, []).append((planned, state))
    return sorted(groups.values(), key=first_version, reverse=True)
