"""The logs of a consumption's targets: the applied statements, and the commits of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.consumption.statement_log import (
    StatementState,
    filled_by,
    foreign_commit,
    statement_state,
)
from ...core.delta.log_actions import Commit
from ...core.errors import ConsumptionOpen, NotADeltaTable, OutcomeUnknown, ended_by_hand
from ...core.model.consumption import Consumption, PlannedStatement
from ..files.stores import Files
from .delta_log import DeltaLog, LogIncomplete


class TargetLog:
    """Reads the targets again at every call. It does not need Spark."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def newest_version(self, location: str, *, since: int = 0) -> int:
        """The newest version of the table at ``location``; -1 if there is no Delta log.

        :param since: a version that the table has reached. The log is listed from there on
        """
        try:
            return DeltaLog(location, self._files).listing(since=since).latest_version
        except NotADeltaTable:
            return -1

    def protocol(self, location: str) -> Mapping[str, Any]:
        """The ``protocol`` action in force at the newest version of the table at ``location``.
        Empty if the log no longer shows it: then only Delta can check it.

        :raises NotADeltaTable: there is no Delta log
        """
        try:
            return DeltaLog(location, self._files).newest_state().protocol
        except LogIncomplete:
            return {}

    def filled_by(self, location: str) -> str | None:
        """The id of the consumption that filled a result table; ``None`` if the table is empty, or
        has no Delta log.
        """
        log = DeltaLog(location, self._files)
        return filled_by(log.commits(after=-1, through=self.newest_version(location)))

    def commits_since(self, statement: PlannedStatement) -> list[Commit]:
        """The commits of a statement's target since its consumption began.

        :raises OutcomeUnknown: some of them were cleaned up
        :raises ConsumptionOpen: the target is another table now
        """
        newest = self.newest_version(statement.location, since=statement.before_version)
        if newest < statement.before_version:
            raise ConsumptionOpen(
                f"target {statement.target}",
                "was replaced while a consumption was writing to it",
                cause=f"expected version {statement.before_version} or later, found {newest}",
                fix=f"end the consumption with {ended_by_hand(statement.target)}",
            )
        try:
            log = DeltaLog(statement.location, self._files)
            return list(log.commits(after=statement.before_version, through=newest))
        except LogIncomplete as error:
            raise OutcomeUnknown(
                f"target {statement.target}",
                "no longer shows whether a statement was applied",
                cause=f"expected the commits after version {statement.before_version}, version"
                f" {error.missing_version} was cleaned up",
                fix="compare the target with its source, then end the consumption with"
                f" {ended_by_hand(statement.target)}",
            ) from None

    def state(self, consumption: Consumption, statement: PlannedStatement) -> StatementState:
        """The outcome of ``statement``; raises like :meth:`commits_since`."""
        return statement_state(consumption, statement.index, self.commits_since(statement))

    def states(self, consumption: Consumption) -> list[StatementState]:
        """The outcome of every statement, in order."""
        return [self.state(consumption, statement) for statement in consumption.statements]

    def moved_on(
        self, consumption: Consumption, statement: PlannedStatement, *, first_version: int
    ) -> Commit | None:
        """The first foreign commit of the target from ``first_version`` on, or ``None``."""
        return foreign_commit(
            consumption, self.commits_since(statement), first_version=first_version
        )
