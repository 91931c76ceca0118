"""The part of the engine that shows where the rows of a target come from."""

from __future__ import annotations

from ...core.arguments.validation import validated
from ...core.errors import InvalidRange
from ...core.model.provenance import Provenance
from ...core.names import table_name
from ...storage.delta.provenances import Provenances
from .delta_tables import Tables


@validated
class TargetProvenance:
    """Shows which versions of their sources targets hold."""

    def __init__(self, tables: Tables, provenances: Provenances) -> None:
        self._tables = tables
        self._provenances = provenances

    def provenance(self, target: str, version: int | None = None) -> Provenance:
        """The versions of its sources that a target holds, by the target's own history.

        Each statement of a consumption writes into the user metadata of its commit what it takes:
        the stream, the source, and the range of the source's versions. So the answer needs neither
        the registry nor the sources, and it is right after an undo, a RESTORE and an overwrite.

        :param target: a catalog name or the path of a Delta table
        :param version: a version of the target; by default the newest
        :returns: a range of versions for each source, and the versions of the target that name no
            source
        :raises TableNotFound: there is no such target
        :raises InvalidRange: the target has no such version, or its log no longer holds it
        """
        found = self._tables.get(table_name(target))
        if version is not None and version < 0:
            raise InvalidRange(
                f"target {found.name}",
                "has no such version",
                cause=f"expected 0 or more, found {version}",
                fix="leave the version out for the newest one",
            )
        return self._provenances.read(found.name, found.location, version)
