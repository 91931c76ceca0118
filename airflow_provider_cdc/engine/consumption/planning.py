"""Plans the statements of a consumption against their targets, before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..core.delta.table_features import check_commits_here
from ..core.errors import (
    ConsumptionOpen,
    InvalidStatement,
    NotADeltaTable,
    TableNotFound,
    ended_by_hand,
)
from ..core.model.consumption import PlannedStatement
from ..core.model.tables import Table
from ..core.names import TableName
from ..core.sql.statements import Statement
from .ports import TargetTables
from .statement_errors import created_meanwhile
from .targets import Targets

_IN_A_TRANSACTION = (
    "create it once, as a statement of a transaction (engine.transaction, or the function in apply"
    " of ConsumeStream)"
)


class Planner:
    """Finds the target of each statement and notes the newest version of its log."""

    def __init__(self, tables: TargetTables, targets: Targets) -> None:
        self._tables = tables
        self._targets = targets

    def plan(
        self,
        statements: Sequence[Statement],
        views: Mapping[str, str],
        consumer: str,
        *,
        are_known: bool = False,
    ) -> list[PlannedStatement]:
        """The plan of all ``statements``. Only a CREATE TABLE AS writes here, after every statement
        was checked: it creates its empty target if that does not exist.

        This call does not touch a table that an earlier consumption created and left empty: another
        driver may be about to fill it. The statement itself replaces that table later, when the
        statement can be fenced off.

        :param are_known: the engine made the statements, so Spark can resolve them
        :raises InvalidStatement: a target cannot take part
        :raises TableNotFound: a target does not exist
        :raises StreamConflict: somebody else created a target meanwhile
        """
        found = self._all_existing(statements)
        _check_created_once(statements)
        for statement, table in zip(statements, found, strict=True):
            self._check_free(statement, table, consumer)
            if not are_known:
                self._targets.check(statement, views)
        return [
            self._planned(
                index,
                statement,
                table or self._created(statement, views, consumer),
                created=table is None,
            )
            for index, (statement, table) in enumerate(zip(statements, found, strict=True))
        ]

    def _created(self, statement: Statement, views: Mapping[str, str], consumer: str) -> Table:
        try:
            self._targets.create(statement, views, consumer)
        except InvalidStatement:
            if self._tables.find(statement.target) is None:
                raise
            raise created_meanwhile(statement) from None
        return self._tables.get(statement.target)

    def check_in_place(self, statement: Statement, planned: PlannedStatement) -> None:
        """Refuse to write to a table other than the one whose log records the statement.

        :raises ConsumptionOpen: the target's name means another table now
        """
        table = self._tables.find(statement.target)
        if table is not None and table.location != planned.location:
            raise ConsumptionOpen(
                f"target {planned.target}",
                "is a different table than when the consumption began",
                cause=f"it was at {planned.location}, and is at {table.location}",
                fix="give the former table its name back and run the consumer again, or end the"
                f" consumption with {ended_by_hand(planned.target)}",
            )

    def _all_existing(self, statements: Sequence[Statement]) -> list[Table | None]:
        """The table of each statement; ``None``: the statement creates it."""
        created: set[str] = set()
        found = []
        for statement in statements:
            try:
                found.append(self._existing(statement))
            except TableNotFound as error:
                if statement.target.sql not in created:
                    raise
                raise TableNotFound(
                    error.subject,
                    "does not exist yet",
                    cause="an earlier statement of the consumption creates it, but all statements"
                    " are planned before the first one runs",
                    fix=f"{_IN_A_TRANSACTION}; the statements after it find the table",
                ) from None
            if statement.create is not None:
                created.add(statement.target.sql)
        return found

    def _existing(self, statement: Statement) -> Table | None:
        if statement.create is None:
            found: Table | None = self.delta_table(statement.target)
        else:
            self._targets.check_makes_delta(statement, statement.create)
            found = self._tables.find(statement.target)
        if found is not None:
            problem = "cannot be the target of a consumption"
            protocol = self._targets.log.protocol(found.location)
            check_commits_here(f"target {found.name}", problem, protocol)
        return found

    def _check_free(self, statement: Statement, table: Table | None, consumer: str) -> None:
        """Refuse a CREATE TABLE AS if a table exists that no consumption left empty."""
        create = statement.create
        if table is None or create is None or create.or_replace:
            return
        if not self._targets.is_leftover(table.location, consumer):
            raise InvalidStatement(
                f"target {statement.target.sql}",
                "exists already",
                cause="expected CREATE TABLE AS to create a new table",
                fix="use INSERT INTO, or CREATE OR REPLACE TABLE AS",
            )

    def delta_table(self, name: TableName) -> Table:
        """The table ``name``, as a target.

        :raises TableNotFound: there is no such table
        :raises InvalidStatement: it is not a Delta table
        """
        try:
            return self._tables.get(name)
        except NotADeltaTable as error:
            raise InvalidStatement(
                error.subject,
                "cannot be the target of a consumption",
                cause=error.cause,
                fix="write to a Delta table: only its log shows whether a statement was applied",
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
            replaces_leftover=not created
            and statement.create is not None
            and not statement.create.or_replace,
        )


def _check_created_once(statements: Sequence[Statement]) -> None:
    created = Counter(each.target.sql for each in statements if each.create is not None)
    for target, count in created.items():
        if count > 1:
            raise InvalidStatement(
                f"target {target}",
                "cannot take part in a consumption",
                cause=f"{count} statements create it",
                fix=f"{_IN_A_TRANSACTION}, and use INSERT INTO in the other statements",
            )
