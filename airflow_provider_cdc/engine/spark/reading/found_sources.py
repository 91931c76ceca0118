"""The possible sources of a stream: a table, a view with its tables, or a folder of files."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.arguments.points import Bound, OffsetOf, Version
from ...core.delta.tracking import ENABLED, is_tracked
from ...core.errors import ChangeTrackingDisabled, InvalidRequest
from ...core.model.access import Right, check_access
from ...core.model.sources import Base, Folder, Offset, Source, View
from ...core.model.tables import Table
from ...core.names import TableName
from ...storage.registry.registry_snapshot import RegistrySnapshot
from ...storage.sources.source_history import SourceHistory
from ..tables.delta_tables import Tables
from ..views.view_definitions import ViewDefinitions


@dataclass(frozen=True, slots=True)
class FoundSource:
    """A table, a view or a folder that was found.

    For a table or a view, ``bases`` are its tables at their newest versions, in the order of
    ``tables``. For a ``folder``, the listing is the only base, and ``tables`` is empty.
    """

    bases: tuple[Base, ...]
    tables: tuple[Table, ...]
    view: View | None
    folder: Folder | None = None

    @property
    def name(self) -> str:
        """Its name as SQL."""
        return self.bases[0].source.name if self.view is None else self.view.name

    @property
    def newest(self) -> tuple[Offset, ...]:
        """The offsets at the newest versions."""
        return tuple(base.offset for base in self.bases)


@dataclass(frozen=True, slots=True)
class Sources:
    """Finds the source of a stream, and offsets in it."""

    tables: Tables
    definitions: ViewDefinitions
    history: SourceHistory

    def table(self, name: TableName) -> FoundSource:
        """The table of that name.

        :raises TableNotFound: there is no such table
        :raises NotADeltaTable: it is not a Delta table
        """
        table = self.tables.get(name)
        return FoundSource((self._base(table),), (table,), None)

    def view(self, name: TableName) -> FoundSource:
        """The view of that name. Snowflake: all its tables must have change tracking on.

        :raises TableNotFound: there is no such view
        :raises UnsupportedView: a stream cannot follow it
        :raises ChangeTrackingDisabled: row tracking of one of its tables is off
        """
        query = self.definitions.query(name)
        bases = tuple(self._base(table) for table in query.tables)
        for base in bases:
            if not is_tracked(base.offset.metadata):
                raise ChangeTrackingDisabled(
                    f"view {query.name.sql}",
                    f"cannot have a stream, change tracking of {base.source.name} is off",
                    cause="expected it to be on for every table that the view reads",
                    fix=f"ALTER TABLE {base.source.name} SET TBLPROPERTIES ('{ENABLED}' = 'true')",
                )
        return FoundSource(bases, query.tables, query.view)

    def either(self, name: TableName) -> FoundSource:
        """The view or the table of that name; raises what :meth:`view` and :meth:`table` raise."""
        return self.view(name) if self.definitions.is_view(name) else self.table(name)

    def offsets(
        self,
        subject: str,
        found: FoundSource,
        bound: Bound,
        streams: RegistrySnapshot,
        principal: str,
        *,
        may_precede_all: bool = False,
    ) -> tuple[Offset, ...]:
        """The offset that ``bound`` means in each base table.

        :param subject: the subject of messages
        :param principal: the principal that asks
        :param may_precede_all: the offset may be before version 0; there a table has no rows
        :raises InvalidRequest: ``bound`` is a version, and the source is a view
        :raises StreamAccessDenied: the principal may not read the stream that ``bound`` names
        :raises InvalidRange: the history of a table does not hold the point
        """
        if found.view is not None and isinstance(bound.point, Version):
            raise InvalidRequest(
                subject,
                f"cannot begin {bound}",
                cause="each table of a view has its own versions",
                fix="name a time, or a stream on the same view",
            )
        if isinstance(bound.point, OffsetOf):
            check_access(streams.get(bound.point.stream), principal, Right.READ)
        return tuple(
            self.history.offset(
                subject, base.source, bound, streams, may_precede_all=may_precede_all
            )
            for base in found.bases
        )

    def _base(self, table: Table) -> Base:
        newest = self.tables.newest_offset(table)
        return Base(Source(table.name, table.location, newest.table_id), newest)
