"""What the targets of streams hold, for the status snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..core.errors import NotADeltaTable
from ..core.model.stream import Stream
from ..core.monitoring.status_snapshot import TargetLine
from ..core.shown_values import without_credentials
from ..storage.delta.provenances import Provenances
from ..storage.files.stores import Files

_FIRST_COMMITS = 20
_LATER_COMMITS = 500
_MOST_UNKNOWN = 100


@dataclass(frozen=True, slots=True)
class _Written:
    """The target of a statement, by its name and location, and the version that it wrote."""

    target: str
    location: str
    version: int


class TargetLines:
    """Reads what targets hold, and reads only the commits since the last snapshot.

    The first time, it reads few commits of each target. A target that no consumption has written
    since the last snapshot costs nothing.

    :param state: the state folder, whose own tables are no targets
    """

    def __init__(self, state: str, files: Files) -> None:
        self._own = f"{state.rstrip('/')}/"
        self._provenances = Provenances(files)

    def read(
        self, streams: Iterable[Stream], known: Mapping[str, TargetLine], omitted: list[str]
    ) -> list[TargetLine]:
        """A line for each target of the last consumption of each stream, sorted by name.

        :param known: the lines of the last snapshot, by their locations
        :param omitted: gets the targets that cannot be read
        """
        found = []
        for written in self._written(streams):
            shown = without_credentials(written.location)
            line = known.get(shown)
            if line is None or line.provenance.version < written.version:
                line = self._line(written, shown, line, omitted)
            if line is not None:
                found.append(line)
        return sorted(found, key=lambda line: line.target)

    def _written(self, streams: Iterable[Stream]) -> Iterable[_Written]:
        newest: dict[str, _Written] = {}
        for stream in streams:
            outcome = stream.last_outcome
            for each in () if outcome is None else outcome.statements:
                known = newest.get(each.location)
                is_older = known is not None and known.version >= each.target_version
                if each.location and not is_older and not each.location.startswith(self._own):
                    newest[each.location] = _Written(
                        each.target, each.location, each.target_version
                    )
        return newest.values()

    def _line(
        self, written: _Written, shown: str, known: TargetLine | None, omitted: list[str]
    ) -> TargetLine | None:
        target = without_credentials(written.target)
        try:
            found = self._provenances.newest(
                target,
                written.location,
                None if known is None else known.provenance,
                at_first=_FIRST_COMMITS,
                later=_LATER_COMMITS,
            )
        except NotADeltaTable:
            return None  # it was dropped
        except Exception as error:
            omitted.append(f"the sources of target {target}: {type(error).__name__}")
            return known
        if found is None:
            return None
        newest = found.unknown_versions[-_MOST_UNKNOWN:]
        return TargetLine(target, shown, replace(found, unknown_versions=newest))
