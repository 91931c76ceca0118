"""Leaving out files that OPTIMIZE alone made of others: both hold the same rows.

A commit that says it changed no data wrote, partition by partition, the rows of the files that it
removed into those that it added. Where the removed ones stood at the offset as they were, and
nobody touched the added ones since, neither has to be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from .log_actions import Commit, DataFile
from .net_files import NetFiles, fold, stood_there

_Partition = tuple[tuple[str, str | None], ...]


@dataclass
class _Rewrite:
    """Files of the offset, and the files that hold the same rows now."""

    originals: set[str] = field(default_factory=set)
    live: set[str] = field(default_factory=set)


def net_difference(commits: Sequence[Commit]) -> NetFiles:
    """The files that hold what differs between the two ends of ``commits``."""
    return without_rewrites(fold(commits), commits)


def without_rewrites(net: NetFiles, commits: Iterable[Commit]) -> NetFiles:
    """``net``, which is the difference that ``commits`` made, without files that only hold rows
    which lay in other files at the offset.
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
        """Whatever is touched otherwise, and what it was made of, has to be read."""
        for path in paths:
            self._touched.add(path)
            rewrite = self._by_live.get(path)
            if rewrite is not None:
                for other in rewrite.live:
                    del self._by_live[other]
                self._touched |= rewrite.originals | rewrite.live

    def follow(self, commit: Commit) -> None:
        """Join what ``commit`` rewrote to what that was made of."""
        removes = _by_partition(commit.removes)
        adds = _by_partition(file for file in commit.adds if not stood_there(file, commit.version))
        if removes.keys() != adds.keys():
            # One value may be spelt in two ways; which files belong together is not known then.
            self.spoil(file.path for file in (*commit.removes, *commit.adds))
            return
        for partition, gone in removes.items():
            self._follow(gone, adds[partition])

    def _follow(self, removes: list[DataFile], adds: list[DataFile]) -> None:
        gone, made = {file.path for file in removes}, {file.path for file in adds}
        is_clean = all(path in self._by_live or path not in self._touched for path in gone)
        if not is_clean or gone & made or made & self._touched:
            self.spoil(gone | made)
            return
        rewrite = _Rewrite(live=made)
        for path in gone:
            before = self._by_live.pop(path, None)
            if before is None:
                rewrite.originals.add(path)
            else:
                rewrite.originals |= before.originals
                rewrite.live |= before.live - gone
        self._touched |= gone | made
        self._by_live.update(dict.fromkeys(rewrite.live, rewrite))

    def clean(self) -> tuple[set[str], set[str]]:
        """The originals and the files that hold their rows now."""
        rewrites = self._by_live.values()
        originals = {path for rewrite in rewrites for path in rewrite.originals}
        return originals, set(self._by_live)


def _by_partition(files: Iterable[DataFile]) -> defaultdict[_Partition, list[DataFile]]:
    found: defaultdict[_Partition, list[DataFile]] = defaultdict(list)
    for file in files:
        found[tuple(sorted(file.partition_values.items()))].append(file)
    return found
