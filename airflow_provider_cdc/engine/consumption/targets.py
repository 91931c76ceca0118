"""Writes to targets: checks a statement, creates its table, and applies it once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.consumption.source_notes import TakenVersions
from ..core.consumption.statement_log import (
    APPLY_VERSION,
    StatementState,
    application_id,
    creation_mark,
    is_unused_creation,
)
from ..core.errors import (
    InvalidStatement,
    OutcomeUnknown,
)
from ..core.model.consumption import Consumption, PlannedStatement, StatementKind
from ..core.sql.statements import CreateTable, Statement, creation_text, text_to_run
from ..storage.delta.delta_log import DeltaLog, LogIncomplete
from ..storage.delta.target_log import TargetLog
from ..storage.files.stores import Files
from ..storage.files.uris import join
from .fences import fenced_off
from .ports import Failure, StatementWriter
from .statement_errors import created_meanwhile, refused


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
        taken: Sequence[TakenVersions],
    ) -> StatementState:
        """Run ``statement`` so that it commits at most once, and return the state of its target.

        :param views: the temporary view of each stream that the statement reads
        :param taken: what it takes of its sources
        :raises StreamConflict: somebody took the consumption over and fenced the statement off
        :raises Exception: any error of the statement itself, if it did not commit
        """
        text = text_to_run(statement, views, created=planned.created)
        app_id = application_id(consumption, planned.index)
        try:
            self._writer.run(text, planned.location, app_id, APPLY_VERSION, taken)
        except Exception:
            # The log shows whether the statement committed before the error.
            state = self.log.state(consumption, planned)
            if state.fenced and state.applied_version is None:
                raise fenced_off(consumption) from None
            if state.applied_version is None:
                raise
            return state
        return self._confirmed(consumption, planned, taken)

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

        This call removes what an earlier creation left, for example one that was killed.
        """
        log = join(root, "_delta_log")
        if not self._files.exists(root):
            return root
        DeltaLog(root, self._files).remove_unfinished()
        return log

    def is_leftover(self, location: str, consumer: str) -> bool:
        """Whether a consumption created the table, and ``consumer`` may use it as its own."""
        log = DeltaLog(location, self._files)
        versions = range(log.latest_version() + 1)
        try:
            return is_unused_creation(consumer, map(log.commit, versions))
        except LogIncomplete:
            return False

    def _confirmed(
        self,
        consumption: Consumption,
        planned: PlannedStatement,
        taken: Sequence[TakenVersions],
    ) -> StatementState:
        state = self.log.state(consumption, planned)
        if state.applied_version is not None:
            return state
        if state.fenced:
            raise fenced_off(consumption)
        if planned.kind is StatementKind.DELETE and planned.rewritten_as is None:
            # A DELETE that matches no row makes no commit; an empty write records it instead.
            app_id = application_id(consumption, planned.index)
            self._writer.record(planned.location, app_id, APPLY_VERSION, taken)
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
