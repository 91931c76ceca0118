"""What the targets of streams hold, for the status snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..core.errors import NotADeltaTable
from ..core.model.stream import Stream
from ..core.monitoring.status_snapshot import TargetLine
from ..core.shown_values import without_credentials
from ..storage.delta.provenances import Provenances, ReadProvenance
from ..storage.files.stores import Files
from .bounded_map import bounded_map

_FIRST_COMMITS = 20
_LATER_COMMITS = 500
_MOST_UNKNOWN = 100
# Targets may be in a store that hangs, and the page waits for the snapshot.
_AT_ONCE = 16
_PATIENCE_SECONDS = 20
_WITHIN_SECONDS = 45


@dataclass(frozen=True, slots=True)
class _Written:
    """The target of a statement, by its name and location, and the version that it wrote."""

    target: str
    location: str
    version: int

    @property
    def shown(self) -> str:
        """Its location without credentials."""
        return without_credentials(self.location)


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
        :param omitted: gets the targets that cannot be read, or not in time
        """
        lines, changed = [], []
        for written in self._written(streams):
            line = known.get(written.shown)
            if line is not None and line.written_version == written.version:
                lines.append(line)
            else:
                changed.append((written, line))
        results = bounded_map(
            lambda each: self._line(*each),
            changed,
            at_once=_AT_ONCE,
            patience_seconds=_PATIENCE_SECONDS,
            within_seconds=_WITHIN_SECONDS,
        )
        for (written, line), result in zip(changed, results, strict=True):
            if isinstance(result, Exception):
                omitted.append(f"the sources of target {written.target}: {type(result).__name__}")
            found = line if isinstance(result, Exception) else result
            if found is not None:
                lines.append(found)
        return sorted(lines, key=lambda line: line.target)

    def _written(self, streams: Iterable[Stream]) -> Iterable[_Written]:
        newest: dict[str, _Written] = {}
        for stream in streams:
            outcome = stream.last_outcome
            for each in () if outcome is None else outcome.statements:
                known = newest.get(each.location)
                is_older = known is not None and known.version >= each.target_version
                if each.location and not is_older and not each.location.startswith(self._own):
                    target = without_credentials(each.target)
                    newest[each.location] = _Written(target, each.location, each.target_version)
        return newest.values()

    def _line(self, written: _Written, known: TargetLine | None) -> TargetLine | None:
        """The line of a target; ``None``: it was dropped, or its log holds no commit."""
        before = None if known is None else ReadProvenance(known.provenance, known.fingerprint)
        try:
            found = self._provenances.newest(
                written.target,
                written.location,
                before,
                at_first=_FIRST_COMMITS,
                later=_LATER_COMMITS,
            )
        except NotADeltaTable:
            return None
        if found is None:
            return None
        newest = found.provenance.unknown_versions[-_MOST_UNKNOWN:]
        return TargetLine(
            written.target,
            written.shown,
            replace(found.provenance, unknown_versions=newest),
            written.version,
            found.fingerprint,
        )
