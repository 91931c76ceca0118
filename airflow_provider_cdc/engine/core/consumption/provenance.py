"""Which versions of their sources a target holds, by the commits of the target alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..delta.log_actions import Commit, DeletionVector
from ..delta.tracking import replaces_all_rows
from ..model.provenance import Provenance, SourceVersions, VersionSpan, with_span
from .live_versions import LiveVersions, restored_version
from .source_notes import TakenVersions, taken_by

_RESTORE = "RESTORE"
_ABSENT = object()
_LOST = -1
"""The version that a RESTORE brought back, if it is not known, or is before all commits."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What one commit did to a target, without its files."""

    version: int
    taken: tuple[TakenVersions, ...]
    replaces_all: bool
    is_unknown: bool


def provenance_of(target: str, commits: Iterable[Commit]) -> Provenance:
    """The provenance of a target after the last of its ``commits``.

    A RESTORE removes what the commits after its version wrote. A commit that replaces all rows
    removes what was written before it.

    :param target: its name
    :param commits: consecutive, at least one
    """
    steps, live, states = [], LiveVersions(), _States()
    for commit in commits:
        back_to = states.restored_by(commit)
        live.follow(commit, back_to)
        steps.append(replace(_step(commit), is_unknown=True) if back_to == _LOST else _step(commit))
    counted = live.up_to(live.newest)
    nothing = Provenance(target, steps[-1].version, steps[0].version, ())
    return _with_steps(nothing, (step for step in steps if step.version in counted))


def with_commits(known: Provenance, later: Iterable[Commit]) -> Provenance | None:
    """The provenance after ``later`` commits, which follow those of ``known``. ``None``: one of
    them brought back an earlier version, so all commits are needed.
    """
    steps = []
    for commit in later:
        if commit.operation == _RESTORE:
            return None
        steps.append(_step(commit))
    newest = steps[-1].version if steps else known.version
    return replace(_with_steps(known, steps), version=newest)


def _step(commit: Commit) -> _Step:
    taken, is_whole = taken_by(commit), replaces_all_rows(commit)
    writes = commit.changes_data and commit.operation != _RESTORE
    only_removes = is_whole and not commit.adds
    is_unknown = writes and taken is None and not only_removes
    return _Step(commit.version, taken or (), is_whole, is_unknown)


def _with_steps(known: Provenance, steps: Iterable[_Step]) -> Provenance:
    held = {(each.stream, each.table_id): each for each in known.sources}
    unknown = list(known.unknown_versions)
    for step in steps:
        if step.replaces_all:
            held, unknown = {}, []
        if step.is_unknown:
            unknown.append(step.version)
        for taken in (each for each in step.taken if each.through > each.after):
            key = (taken.stream, taken.table_id)
            spans = held[key].spans if key in held else ()
            spans = with_span(spans, VersionSpan(taken.after, taken.through))
            held[key] = SourceVersions(taken.stream, taken.source, taken.table_id, spans)
    return replace(known, sources=tuple(held.values()), unknown_versions=tuple(unknown))


class _States:
    """The files of a table after each commit, as a number for each state.

    Adding a file and removing it change the number alike. So equal numbers mean equal files,
    whatever files the table had before the first commit.
    """

    def __init__(self) -> None:
        self._state = 0
        self._version_of: dict[int, int] = {}
        self._added: dict[str, DeletionVector | None] = {}

    def restored_by(self, commit: Commit) -> int | None:
        """Take the next commit, and return the version that it brought back, if it is a RESTORE.

        A RESTORE to a time does not record the version. It is the newest earlier version with the
        same files.
        """
        if not self._version_of:
            self._version_of[self._state] = commit.version - 1
        for file in commit.removes:
            self._change(file.path, file.deletion_vector)
            self._added.pop(file.path, None)
        for file in commit.adds:
            # COMPUTE STATISTICS adds files again without removing them.
            if self._added.get(file.path, _ABSENT) != file.deletion_vector:
                self._change(file.path, file.deletion_vector)
                self._added[file.path] = file.deletion_vector
        found = None
        if commit.operation == _RESTORE:
            found = restored_version(commit)
            if found is None:
                found = self._version_of.get(self._state, _LOST)
        self._version_of[self._state] = commit.version
        return found

    def _change(self, path: str, vector: DeletionVector | None) -> None:
        self._state ^= hash((path, vector))
