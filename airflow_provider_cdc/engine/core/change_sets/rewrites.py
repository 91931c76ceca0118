"""Leaves out files that only OPTIMIZE made of other files, because both hold the same rows.

A commit that is marked as no data change writes the rows of the files that it removes into the
files that it adds, partition by partition. If the removed files are still as they were at the
offset, the range is read as if the rewrite ran before the offset. Then the originals are not read,
and the added files are read only if a later commit touches them. If that is not possible, both are
left out if no later commit touches the added files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..delta.log_actions import Commit, DataFile
from ..delta.table_schema import Layout
from .net_files import NetFiles, existed_before, fold, restores_files

_Partition = tuple[tuple[str, str | None], ...]


@dataclass
class _Rewrite:
    """Files that were there at the offset, and the files that hold the same rows now."""

    originals: set[str] = field(default_factory=set)
    live: set[str] = field(default_factory=set)


def net_difference(commits: Sequence[Commit], layout: Layout | None = None) -> NetFiles:
    """The files that hold what differs between the two ends of ``commits``.

    :param layout: the layout in force at the offset; without it, any change of the table's metadata
        counts as a new layout
    """
    if not any(commit.changes_data for commit in commits):
        return NetFiles((), (), (), changes_data=False)
    kept = as_if_rewritten_before(commits, layout)
    return without_rewrites(fold(kept), kept)


def as_if_rewritten_before(
    commits: Sequence[Commit], layout: Layout | None = None
) -> Sequence[Commit]:
    """Treat OPTIMIZE rewrites of untouched files as if they ran before the offset.

    The rows, their row ids and their commit versions are those of the originals. This does not
    apply after a change of the table's protocol or ``layout``, because rows of the offset are read
    by what was in force there. It also does not apply if a RESTORE, or a commit like it, may bring
    the originals back.
    """
    if any(map(restores_files, commits)) or not any(map(_rewrites_alone, commits)):
        return commits
    touched: set[str] = set()
    kept = []
    is_as_it_was = True
    for commit in commits:
        is_as_it_was = is_as_it_was and commit.protocol is None and _keeps(commit, layout)
        left = commit
        if is_as_it_was and _rewrites_alone(commit):
            done = _done_before(commit, touched)
            left = replace(
                commit,
                removes=tuple(file for file in commit.removes if file.path not in done),
                adds=tuple(file for file in commit.adds if file.path not in done),
            )
        touched.update(file.path for file in (*left.removes, *_made(left)))
        kept.append(left)
    return kept


def _rewrites_alone(commit: Commit) -> bool:
    """Whether ``commit`` replaced files and is marked as no data change."""
    return bool(commit.removes) and not commit.changes_data


def _keeps(commit: Commit, layout: Layout | None) -> bool:
    """Whether ``layout`` reads files in the same way before and after ``commit``."""
    if commit.metadata is None:
        return True
    return layout is not None and Layout.of(commit.metadata).reads_as(layout)


def _done_before(commit: Commit, touched: set[str]) -> set[str]:
    """The removed and the added files of a rewrite, in partitions in which no file is touched."""
    found: set[str] = set()
    for removes, adds in _pairs(commit) or ():
        removed, made = {file.path for file in removes}, {file.path for file in adds}
        if not (removed | made) & touched and not removed & made:
            found |= removed | made
    return found


def without_rewrites(net: NetFiles, commits: Iterable[Commit]) -> NetFiles:
    """``net``, the difference that ``commits`` made, without files that only hold moved rows.

    The rows of the files that are left out were in other files at the offset.
    """
    rewrites = _Rewrites()
    for commit in commits:
        if commit.changes_data:
            rewrites.spoil(file.path for file in (*commit.removes, *commit.adds))
        else:
            rewrites.follow(commit)
    originals, live = rewrites.clean()
    return replace(
        net,
        removed=tuple(file for file in net.removed if file.path not in originals),
        added=tuple(file for file in net.added if file.path not in live),
    )


class _Rewrites:
    def __init__(self) -> None:
        self._touched: set[str] = set()
        self._by_live: dict[str, _Rewrite] = {}

    def spoil(self, paths: Iterable[str]) -> None:
        """Mark ``paths``, and the files that they were made of, as files that have to be read."""
        for path in paths:
            self._touched.add(path)
            rewrite = self._by_live.get(path)
            if rewrite is not None:
                for other in rewrite.live:
                    del self._by_live[other]
                self._touched |= rewrite.originals | rewrite.live

    def follow(self, commit: Commit) -> None:
        """Join the rewrite of ``commit`` with the earlier rewrites that made its files."""
        pairs = _pairs(commit)
        if pairs is None:
            self.spoil(file.path for file in (*commit.removes, *commit.adds))
            return
        for removes, adds in pairs:
            self._follow(removes, adds)

    def _follow(self, removes: list[DataFile], adds: list[DataFile]) -> None:
        removed, made = {file.path for file in removes}, {file.path for file in adds}
        is_clean = all(path in self._by_live or path not in self._touched for path in removed)
        if not is_clean or removed & made or made & self._touched:
            self.spoil(removed | made)
            return
        rewrite = _Rewrite(live=made)
        for path in removed:
            before = self._by_live.pop(path, None)
            if before is None:
                rewrite.originals.add(path)
            else:
                rewrite.originals |= before.originals
                rewrite.live |= before.live - removed
        self._touched |= removed | made
        self._by_live.update(dict.fromkeys(rewrite.live, rewrite))

    def clean(self) -> tuple[set[str], set[str]]:
        """The originals and the files that hold their rows now."""
        rewrites = self._by_live.values()
        originals = {path for rewrite in rewrites for path in rewrite.originals}
        return originals, set(self._by_live)


def _made(commit: Commit) -> list[DataFile]:
    """The files that ``commit`` added, without those that it only listed again."""
    return [file for file in commit.adds if not existed_before(file, commit.version)]


def _pairs(commit: Commit) -> list[tuple[list[DataFile], list[DataFile]]] | None:
    """What a rewrite removed and what it made of that, partition by partition.

    ``None`` if that is not known, because one value of a partition may be spelt in two ways.
    """
    removes, adds = _by_partition(commit.removes), _by_partition(_made(commit))
    if removes.keys() != adds.keys():
        return None
    return [(removed, adds[partition]) for partition, removed in removes.items()]


def _by_partition(files: Iterable[DataFile]) -> defaultdict[_Partition, list[DataFile]]:
    found: defaultdict[_Partition, list[DataFile]] = defaultdict(list)
    for file in files:
        found[tuple(sorted(file.partition_values.items()))].append(file)
    return found
