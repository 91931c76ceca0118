"""The ports of the protocol: what a consumption needs from the engine that runs its SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ..core.change_sets.read_plan import ReadPlan
from ..core.consumption.source_notes import TakenVersions
from ..core.model.outcomes import StreamOutcome
from ..core.model.tables import Table
from ..core.names import TableName
from ..core.sql.statements import Statement
from ..core.work_progress import TaskCount, WorkProgress
from ..storage.sources.source_log import StreamSpan


@dataclass(frozen=True, slots=True)
class Failure:
    """What an exception shows about the statement that raised it.

    ``reason`` holds the messages of the exception and of its causes. If ``has_ended`` is false, the
    statement may still run and commit later. ``is_refusal``: the statement was refused before it
    read a row. ``table_exists``: it was refused because the table that it creates exists.
    """

    reason: str
    has_ended: bool
    is_refusal: bool = False
    table_exists: bool = False

    @property
    def first_line(self) -> str:
        """The first line of the reason."""
        return self.reason.partition("\n")[0].rstrip(".; ")


class StatementWriter(Protocol):
    """Runs statements, so that each of them commits at most once to its target.

    The log of the target shows whether a statement was applied, so a writer reports only errors.
    """

    def failure(self, error: Exception) -> Failure:
        """What ``error``, raised by this writer, shows about its statement."""

    def default_source(self) -> str | None:
        """The data source of a new table if the statement does not name one."""

    def check(self, statement: Statement, views: Mapping[str, str]) -> None:
        """Analyse ``statement`` without running it.

        :raises InvalidStatement: it cannot be parsed or resolved
        """

    def run(
        self, text: str, location: str, app_id: str, version: int, taken: Sequence[TakenVersions]
    ) -> None:
        """Run the statement ``text`` and commit it to the table at ``location`` with the
        transaction ``version`` of ``app_id``. Skip it if the table has recorded that version or a
        later one. Fail if another commit records a version of ``app_id`` at the same time.

        :param taken: what the statement takes of its sources, for the user metadata of the commit
        """

    def record(
        self,
        location: str,
        app_id: str,
        version: int,
        taken: Sequence[TakenVersions] | None = None,
    ) -> None:
        """Commit the transaction ``version`` of ``app_id`` without changing a row; like
        :meth:`run`.

        :param taken: as for :meth:`run`; ``None``: it is no statement
        """

    def restore(self, location: str, version: int, mark: str) -> None:
        """Restore the table to ``version``, whatever its retention is, in a commit with ``mark`` as
        user metadata.

        :raises Exception: a file that the version needs is missing
        """

    def create(self, text: str, mark: str) -> None:
        """Create an empty table by ``text``, in a commit with ``mark`` as user metadata."""


class OpenChangeSets(Protocol):
    """The change sets of a consumption, which its statements read until they are closed."""

    @property
    def names(self) -> Mapping[str, str]:
        """The view of each stream by the stream's name."""

    @property
    def spans(self) -> Sequence[StreamSpan]:
        """What each change set covers."""

    @property
    def plans(self) -> Sequence[Sequence[ReadPlan]]:
        """How each change set is read, for each base table."""

    def outcomes(self) -> tuple[StreamOutcome, ...]:
        """The counted changes of each stream. This call computes and keeps the change sets, except
        those whose number of rows the log shows.

        :raises FilesChanged: a file was overwritten or removed during the read
        :raises FileUnreadable: a file cannot be read
        """


class ChangeSetViews(Protocol):
    """Opens change sets.

    Snowflake, repeatable read: every statement sees the same records.
    """

    def open(
        self, spans: Sequence[StreamSpan], *, are_read_once: bool = False
    ) -> AbstractContextManager[OpenChangeSets]:
        """The change sets of ``spans``, as views until the block ends.

        :param are_read_once: only one statement reads them
        """


class TargetTables(Protocol):
    """Finds the Delta tables that statements name."""

    def find(self, name: TableName) -> Table | None:
        """The Delta table ``name``; ``None``: there is no such table.

        :raises NotADeltaTable: something else has that name
        """

    def get(self, name: TableName) -> Table:
        """Like :meth:`find`.

        :raises TableNotFound: there is no such table
        """


class TaskCounter(Protocol):
    """Counts the tasks that run for one thread."""

    def begin(self) -> None:
        """Count the tasks of this thread from now on, and no earlier ones."""

    def end(self) -> None:
        """Count no more. The thread that called :meth:`begin` calls it."""

    def counted(self) -> TaskCount:
        """The tasks so far. Any thread may ask."""


class Display(Protocol):
    """Shows the progress of one piece of work. One thread calls it."""

    @property
    def delay_seconds(self) -> float:
        """How long the work has to run before it is shown."""

    @property
    def every_seconds(self) -> float:
        """The time between two calls of :meth:`show`."""

    def show(self, progress: WorkProgress) -> None:
        """Show how far the work is."""

    def close(self) -> None:
        """Remove what was shown. The work has ended, or has failed."""
