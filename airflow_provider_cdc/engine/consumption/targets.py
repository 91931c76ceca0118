"""Writes to targets: applies a statement, fences it off, undoes what was applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..core.change_sets.net_files import fold
from ..core.consumption.statement_log import (
    APPLY_VERSION,
    FENCE_VERSION,
    StatementState,
    application_id,
    creation_mark,
    foreign_commit,
    is_unused_creation,
    undo_mark,
    wiped_out,
)
from ..core.errors import (
    ConsumptionOpen,
    InvalidStatement,
    OutcomeUnknown,
    StreamConflict,
    ended_by_hand,
)
from ..core.model.consumption import Consumption, PlannedStatement, StatementKind
from ..core.sql.statements import CreateTable, Statement, creation_text, text_to_run
from ..storage.delta.delta_log import DeltaLog, LogIncomplete
from ..storage.delta.range_files import RangeFiles
from ..storage.delta.target_log import TargetLog
from ..storage.files.stores import Files, join
from .ports import Failure, StatementWriter
from .statement_errors import created_meanwhile, refused


class UndoneTooMuch(ConsumptionOpen):
    """An undo also removed the commit of somebody else. Only an operator can bring it back, so each
    attempt raises this error until somebody ends the consumption by hand.
    """


class Targets:
    """The targets of consumptions. The target's log shows the outcome of a statement. The engine
    does not trust what the statement itself returns.
    """

    def __init__(self, writer: StatementWriter, files: Files) -> None:
        self._writer = writer
        self._files = files
        self.log = TargetLog(files)

    def check(self, statement: Statement, views: Mapping[str, str]) -> None:
        """Analyse ``statement`` without running it.

        :raises InvalidStatement: it cannot be parsed or resolved
        """
        self._writer.check(statement, views)

    def failure(self, error: Exception) -> Failure:
        """What ``error``, raised by a statement, shows about it."""
        return self._writer.failure(error)

    def check_makes_delta(self, statement: Statement, create: CreateTable) -> None:
        """Refuse a CREATE TABLE AS whose table would not be a Delta table.

        :raises InvalidStatement: it would not be one
        """
        source = create.data_source or self._writer.default_source()
        if source is None or source.lower() != "delta":
            raise InvalidStatement(
                f"target {statement.target.sql}",
                "cannot be the target of a consumption",
                cause=f"expected a Delta table, this would create a table of the format {source}",
                fix="write USING delta before AS; nothing was created",
            )

    def apply(
        self,
        consumption: Consumption,
        planned: PlannedStatement,
        statement: Statement,
        views: Mapping[str, str],
    ) -> StatementState:
        """Run ``statement`` so that it commits at most once, and return the state of its target.

        :param views: the temporary view of each stream that the statement reads
        :raises StreamConflict: somebody took the consumption over and fenced the statement off
        :raises Exception: any error of the statement itself, if it did not commit
        """
        text = text_to_run(statement, views, created=planned.created)
        app_id = application_id(consumption, planned.index)
        try:
            self._writer.run(text, planned.location, app_id, APPLY_VERSION)
        except Exception:
            # The log shows whether the statement committed before the error.
            state = self.log.state(consumption, planned)
            if state.fenced and state.applied_version is None:
                raise fenced_off(consumption) from None
            if state.applied_version is None:
                raise
            return state
        return self._confirmed(consumption, planned)

    def fence(self, consumption: Consumption, planned: PlannedStatement) -> StatementState:
        """Make sure that ``planned`` is either applied already or can never be applied.

        :raises OutcomeUnknown: the log does not show the fence
        """
        failure: Exception | None = None
        try:
            self._write_nothing(consumption, planned, FENCE_VERSION)
        except Exception as error:
            # The statement itself, or the same fence by another driver, may have committed first.
            failure = error
        state = self.log.state(consumption, planned)
        if state.applied_version is None and not state.fenced:
            raise OutcomeUnknown(
                f"target {planned.target}",
                "does not show the fence that was written",
                cause="expected the transaction of the fence in the log, found neither that nor the"
                f" one of the statement{self._after(failure)}",
                fix="run the consumer again",
            ) from failure
        return state

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
                self.log.state(consumption, item).applied_version is not None for item, _ in applied
            ):
                raise _not_undone(
                    consumption, planned, f"{type(error).__name__}: {self.failure(error).reason}"
                ) from error
        self.check_undone(consumption, planned)

    def create(self, statement: Statement, views: Mapping[str, str], consumer: str) -> None:
        """Create the empty target of a CREATE TABLE AS, so that it can be fenced from then on. A
        table that is created and filled in one commit cannot be fenced before it exists.

        :raises InvalidStatement: it is refused; it may exist by now
        """
        root = statement.target.path
        leavings = None if root is None else self._leavings(root)
        text = creation_text(statement, views)
        try:
            self._writer.create(text, creation_mark(consumer))
        except Exception as error:
            failure = self.failure(error)
            if not failure.has_ended:
                raise
            if leavings is not None:
                self._files.remove_if_empty(leavings)
            if failure.table_exists:
                raise created_meanwhile(statement) from None
            raise refused(statement, failure.first_line, text) from None

    def _leavings(self, root: str) -> str:
        """The folder that a refused creation of a table at ``root`` leaves without a file in it.

        This call removes what an earlier creation left, for example one that was killed, because
        Spark treats a log without a commit as a table. Nobody can have found a table there.
        """
        log = join(root, "_delta_log")
        if not self._files.exists(root):
            return root
        self._files.remove_if_empty(log)
        return log

    def is_leftover(self, location: str, consumer: str) -> bool:
        """Whether a consumption created the table, and ``consumer`` may use it as its own."""
        log = DeltaLog(location, self._files)
        versions = range(log.latest_version() + 1)
        try:
            return is_unused_creation(consumer, map(log.commit, versions))
        except LogIncomplete:
            return False

    def check_undone(self, consumption: Consumption, planned: PlannedStatement) -> None:
        """Undo an undo that removed a commit of somebody else.

        :raises ConsumptionOpen: there was such an undo
        :raises UndoneTooMuch: there was such an undo, and it can no longer be undone
        """
        taken_back = None
        commits = self.log.commits_since(planned)
        while (found := wiped_out(consumption, commits)) is not None:
            undo_version, taken_back = found
            if foreign_commit(consumption, commits, first_version=undo_version + 1) is not None:
                raise _undone_too_much(consumption, planned, taken_back.version, undo_version)
            self._check_restorable(consumption, planned, undo_version - 1)
            self._writer.restore(planned.location, undo_version - 1, undo_mark(consumption))
            # This RESTORE may have removed a commit of somebody else too.
            commits = self.log.commits_since(planned)
        if taken_back is not None:
            raise moved_on(consumption, planned, taken_back.version)

    def check_not_moved_on(
        self, consumption: Consumption, planned: PlannedStatement, first_version: int
    ) -> None:
        """Refuse an undo if somebody else has written since; raises ConsumptionOpen."""
        foreign = self.log.moved_on(consumption, planned, first_version=first_version)
        if foreign is not None:
            raise moved_on(consumption, planned, foreign.version)

    def _check_restorable(
        self, consumption: Consumption, planned: PlannedStatement, version: int
    ) -> None:
        """Refuse to bring back a file, or its deletion vector, that VACUUM has removed. RESTORE
        itself checks only files, and it checks nothing if the session ignores missing files.

        :raises ConsumptionOpen: one is missing; the target still holds the statements' work
        """
        commits = self.log.commits_since(planned)
        net = fold(commit for commit in commits if commit.version > version)
        found = RangeFiles(planned.location, self._files)
        brought_back = (*net.removed, *(pair.old for pair in net.revectored))
        if missing := found.missing(map(found.absolute, brought_back)):
            raise _not_restorable(consumption, planned, missing[0])

    def _confirmed(self, consumption: Consumption, planned: PlannedStatement) -> StatementState:
        state = self.log.state(consumption, planned)
        if state.applied_version is not None:
            return state
        if state.fenced:
            raise fenced_off(consumption)
        if planned.kind is StatementKind.DELETE and planned.rewritten_as is None:
            # A DELETE that matches no row makes no commit; an empty write records it instead.
            self._write_nothing(consumption, planned, APPLY_VERSION)
            state = self.log.state(consumption, planned)
        if state.applied_version is None:
            if state.fenced:
                raise fenced_off(consumption)
            raise OutcomeUnknown(
                f"target {planned.target}",
                "does not show a statement that returned without an error",
                cause="expected the statement's transaction in the log, found none",
                fix="run the consumer again; it applies only what is missing",
            )
        return state

    def _write_nothing(
        self, consumption: Consumption, planned: PlannedStatement, version: int
    ) -> None:
        app_id = application_id(consumption, planned.index)
        self._writer.record(planned.location, app_id, version)

    def _after(self, failure: Exception | None) -> str:
        if failure is None:
            return ""
        return f", after {type(failure).__name__}: {self.failure(failure).reason}"


def first_version(applied: Sequence[tuple[PlannedStatement, StatementState]]) -> int:
    """The version of a target that holds the first of the ``applied`` statements."""
    return min(state.applied_version or 0 for _, state in applied)


def fenced_off(consumption: Consumption) -> StreamConflict:
    """The error of a driver that was fenced off."""
    return StreamConflict(
        f"stream {consumption.stream_names}",
        f"consumption {consumption.consumption_id} of {consumption.consumer} was taken over",
        cause="another consumer fenced its statements off",
        fix="run the consumer again; it starts again from the current offset",
    )


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
