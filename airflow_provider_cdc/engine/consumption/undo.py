"""Undoes what statements did to a target, unless somebody else has written to it since."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.change_sets.net_files import fold
from ..core.consumption.statement_log import (
    StatementState,
    foreign_commit,
    undo_mark,
    wiped_out,
)
from ..core.errors import ConsumptionOpen, OutcomeUnknown, ended_by_hand
from ..core.model.consumption import Consumption, PlannedStatement
from ..storage.delta.range_files import RangeFiles
from ..storage.delta.target_log import TargetLog
from ..storage.files.stores import Files
from .ports import StatementWriter


class UndoneTooMuch(ConsumptionOpen):
    """An undo also removed the commit of somebody else. Only an operator can bring it back, so each
    attempt raises this error until somebody ends the consumption by hand.
    """


class TargetUndo:
    """Undoes the statements of a consumption."""

    def __init__(self, writer: StatementWriter, files: Files, log: TargetLog) -> None:
        self._writer = writer
        self._files = files
        self._log = log

    def undo(
        self,
        consumption: Consumption,
        applied: Sequence[tuple[PlannedStatement, StatementState]],
        check_ending: Callable[[], None],
    ) -> None:
        """Undo what the ``applied`` statements did to the one target that they share.

        A target that the consumption created stays as an empty table. Another driver may have found
        it and written to it since, and removing the table would remove these rows.

        :param check_ending: raises if the consumption must no longer be undone
        :raises ConsumptionOpen: somebody else has written to the target; it still holds the
            statements' work
        :raises OutcomeUnknown: the undo was refused
        """
        planned = applied[0][0]
        first = first_version(applied)
        self.check_not_moved_on(consumption, planned, first)
        self._check_restorable(consumption, planned, first - 1)
        # Check right before the RESTORE, which does not notice commits that come before it begins.
        check_ending()
        try:
            self._writer.restore(planned.location, first - 1, undo_mark(consumption))
        except Exception as error:
            # Somebody committed meanwhile, perhaps another driver with the same undo.
            self.check_not_moved_on(consumption, planned, first)
            if any(
                self._log.state(consumption, item).applied_version is not None
                for item, _ in applied
            ):
                found = f"{type(error).__name__}: {self._writer.failure(error).reason}"
                raise _not_undone(consumption, planned, found) from error
        self.check_undone(consumption, planned)

    def check_undone(self, consumption: Consumption, planned: PlannedStatement) -> None:
        """Undo an undo that removed a commit of somebody else.

        :raises ConsumptionOpen: there was such an undo
        :raises UndoneTooMuch: there was such an undo, and it can no longer be undone
        """
        taken_back = None
        commits = self._log.commits_since(planned)
        while (found := wiped_out(consumption, commits)) is not None:
            undo_version, taken_back = found
            if foreign_commit(consumption, commits, first_version=undo_version + 1) is not None:
                raise _undone_too_much(consumption, planned, taken_back.version, undo_version)
            self._check_restorable(consumption, planned, undo_version - 1)
            self._writer.restore(planned.location, undo_version - 1, undo_mark(consumption))
            # This RESTORE may have removed a commit of somebody else too.
            commits = self._log.commits_since(planned)
        if taken_back is not None:
            raise moved_on(consumption, planned, taken_back.version)

    def check_not_moved_on(
        self, consumption: Consumption, planned: PlannedStatement, first_version: int
    ) -> None:
        """Refuse an undo if somebody else has written since; raises ConsumptionOpen."""
        foreign = self._log.moved_on(consumption, planned, first_version=first_version)
        if foreign is not None:
            raise moved_on(consumption, planned, foreign.version)

    def _check_restorable(
        self, consumption: Consumption, planned: PlannedStatement, version: int
    ) -> None:
        """Refuse to bring back a file, or its deletion vector, that VACUUM has removed. RESTORE
        itself checks only files, and it checks nothing if the session ignores missing files.

        :raises ConsumptionOpen: one is missing; the target still holds the statements' work
        """
        commits = self._log.commits_since(planned)
        net = fold(commit for commit in commits if commit.version > version)
        found = RangeFiles(planned.location, self._files)
        brought_back = (*net.removed, *(pair.old for pair in net.revectored))
        if missing := found.missing(map(found.absolute, brought_back)):
            raise _not_restorable(consumption, planned, missing[0])


def first_version(applied: Sequence[tuple[PlannedStatement, StatementState]]) -> int:
    """The version of a target that holds the first of the ``applied`` statements."""
    return min(state.applied_version or 0 for _, state in applied)


def moved_on(consumption: Consumption, planned: PlannedStatement, version: int) -> ConsumptionOpen:
    """The error if an applied statement cannot be undone."""
    finish = f"run {consumption.consumer} again to finish it, or "
    if consumption.is_open_ended:
        finish = ""  # only the block itself can finish a transaction
    return ConsumptionOpen(
        f"stream {consumption.stream_names}",
        f"consumption {consumption.consumption_id} of {consumption.consumer} stays open, target"
        f" {planned.target} has moved on",
        cause=f"statement {consumption.ordinal_of(planned)} was applied to it, and somebody else"
        f" has committed version {version} since",
        fix=f"{finish}end it with {ended_by_hand(planned.target)}, which keeps what was applied",
    )


def _not_undone(consumption: Consumption, planned: PlannedStatement, found: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"target {planned.target}",
        f"could not be restored to its state before consumption {consumption.consumption_id}",
        cause=f"expected RESTORE to succeed, found {found}",
        fix="run the consumer again; it continues the undo",
    )


def _not_restorable(
    consumption: Consumption, planned: PlannedStatement, path: str
) -> ConsumptionOpen:
    return ConsumptionOpen(
        f"stream {consumption.stream_names}",
        f"consumption {consumption.consumption_id} of {consumption.consumer} stays open, target"
        f" {planned.target} cannot be restored to its earlier state",
        cause=f"statement {consumption.ordinal_of(planned)} was applied to it, and its earlier file"
        f" {path} has been removed since",
        fix="restore that file and run the consumer again, or end it with"
        f" {ended_by_hand(planned.target)}, which keeps what was applied",
    )


def _undone_too_much(
    consumption: Consumption, planned: PlannedStatement, version: int, undo_version: int
) -> UndoneTooMuch:
    return UndoneTooMuch(
        f"stream {consumption.stream_names}",
        f"consumption {consumption.consumption_id} of {consumption.consumer} stays open, its undo"
        f" also undid a commit of somebody else in target {planned.target}",
        cause=f"version {undo_version} undid statement {consumption.ordinal_of(planned)} and also"
        f" version {version} of somebody else; because of later commits, that cannot be reverted",
        fix=f"apply version {version} again by hand, then end it with"
        f" {ended_by_hand(planned.target)}",
    )
