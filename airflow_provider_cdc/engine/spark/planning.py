"""Planning the statements of a consumption against their targets, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from ..core.errors import CdcError, InvalidStatement, NotADeltaTable
from ..core.model import PlannedStatement
from ..core.statements import Statement
from .tables import Table, Tables
from .targets import Targets


class Planner:
    """Finds the target of each statement and notes where its log stands."""

    def __init__(self, tables: Tables, targets: Targets) -> None:
        self._tables = tables
        self._targets = targets

    def plan(
        self, statements: Sequence[Statement], views: Mapping[str, str], consumer: str
    ) -> list[PlannedStatement]:
        """The plan of all ``statements``. Only a CREATE TABLE AS writes here: its empty target, and
        only after every other statement was found in order.

        :raises InvalidStatement: a target cannot take part
        :raises TableNotFound: a target does not exist
        """
        found = [self._existing(statement) for statement in statements]
        leftovers = [
            self._is_leftover(statement, table, consumer)
            for statement, table in zip(statements, found, strict=True)
        ]
        made: list[Table] = []
        planned = []
        try:
            for index, statement in enumerate(statements):
                table, created = found[index], found[index] is None or leftovers[index]
                if table is None or created:
                    self._targets.create(statement, views, consumer, replace=leftovers[index])
                    table = self._tables.get(statement.target)
                    made.extend([] if leftovers[index] else [table])
                self._targets.check(statement, views, created=created)
                planned.append(self._planned(index, statement, table, created=created))
        except Exception:
            for table in made:
                with suppress(CdcError, OSError):
                    self._targets.drop(table.sql, table.location)
            raise
        return planned

    def _existing(self, statement: Statement) -> Table | None:
        if statement.create is None:
            return self._delta_table(statement)
        return self._tables.find(statement.target)

    def _is_leftover(self, statement: Statement, table: Table | None, consumer: str) -> bool:
        """Whether ``table`` is what an earlier consumption created for a CREATE TABLE AS."""
        create = statement.create
        if table is None or create is None or create.or_replace:
            return False
        if self._targets.is_leftover(table.location, consumer):
            return True
        raise InvalidStatement(
            f"target {statement.target.sql}",
            "exists already",
            cause="expected CREATE TABLE AS to make a new table",
            fix="use INSERT INTO, or CREATE OR REPLACE TABLE AS",
        )

    def _delta_table(self, statement: Statement) -> Table:
        try:
            return self._tables.get(statement.target)
        except NotADeltaTable as error:
            raise InvalidStatement(
                error.subject,
                "cannot be the target of a consumption",
                cause=error.cause,
                fix="write to a Delta table: only its log can tell whether a statement was applied",
            ) from None

    def _planned(
        self, index: int, statement: Statement, table: Table, *, created: bool
    ) -> PlannedStatement:
        return PlannedStatement(
            index=index,
            kind=statement.kind,
            fingerprint=statement.fingerprint,
            target=statement.target.sql,
            location=table.location,
            before_version=self._targets.log.newest_version(table.location),
            created=created,
            rewritten_as=statement.rewritten_as,
        )
