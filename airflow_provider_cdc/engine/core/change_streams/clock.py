"""The clock of a change stream: one time for the commits of all its tables.

Each Delta table has a clock of its own, and clocks of writers may be wrong. So a *tick* gives each
new commit of each table a stamp. Stamps are unique and never go back. A tick also promises that
every later commit gets a later stamp: heartbeats and partitions rely on that, whatever the clocks
show.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise


@dataclass(frozen=True, slots=True, order=True)
class SourceCommit:
    """A commit of a watched table.

    ``time`` is the commit's own time, in microseconds since 1970. ``transaction`` names the
    transaction over several tables that made it, if there was one.
    """

    table: str
    version: int
    time: int
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class StampedCommit:
    """A commit and its stamp, in microseconds since 1970."""

    stamp: int
    commit: SourceCommit


@dataclass(frozen=True, slots=True)
class Tick:
    """The commits that a tick sealed, in the order of their stamps.

    Every commit that is sealed later has a stamp after ``through``.
    """

    through: int
    commits: tuple[StampedCommit, ...]


def tick(commits: Iterable[SourceCommit], after: int, now: int) -> Tick:
    """Seal ``commits``.

    The stamp of a commit is its own time, unless an earlier stamp or promise is not before that:
    then it is the next microsecond. The stamps of a table follow its versions. The commits of one
    transaction share a stamp. If two transactions wrote to the same tables in different orders,
    no order has both of them whole, and the commits of one get a stamp each.

    :param commits: all commits of the watched tables since the last tick
    :param after: what the last tick promised, in microseconds since 1970
    :param now: the time of this tick, in microseconds since 1970
    """
    last = after
    found: list[StampedCommit] = []
    for group in _in_order(list(commits)):
        last = max(last + 1, *(commit.time for commit in group))
        found.extend(StampedCommit(last, commit) for commit in sorted(group))
    return Tick(max(last, now), tuple(found))


def sealable(commits: Iterable[SourceCommit], ended: Collection[str]) -> list[SourceCommit]:
    """Those of ``commits`` that can be sealed now so that each transaction is sealed whole.

    Spanner: a record is visible when its transaction has committed. A commit of another transaction
    waits, and so do the later commits of its table, whose stamps have to come after it.

    :param commits: all commits of the watched tables since the last tick
    :param ended: the transactions that will make no further commit
    """
    ordered = sorted(commits, key=lambda commit: (commit.table, commit.version))
    whole = set(ended)
    while True:
        held: set[str] = set()
        taken: list[SourceCommit] = []
        waiting: set[str] = set()
        for commit in ordered:
            if commit.transaction is not None and commit.transaction not in whole:
                held.add(commit.table)
            if commit.table not in held:
                taken.append(commit)
            elif commit.transaction is not None:
                waiting.add(commit.transaction)
        if waiting.isdisjoint(whole):
            return taken
        # Another commit holds a part of these transactions back, so their other parts wait too.
        whole -= waiting


# A transaction, or a table and the version of a single commit.
_Name = tuple[str, int]
_TRANSACTION = -1


def _in_order(commits: Sequence[SourceCommit]) -> Iterator[list[SourceCommit]]:
    """The commits by time, those of a transaction together, each table in the order of versions."""
    apart: set[_Name] = set()
    while True:
        names = {commit: _name(commit, apart) for commit in commits}
        groups: dict[_Name, list[SourceCommit]] = {}
        for commit in commits:
            groups.setdefault(names[commit], []).append(commit)
        sorter = TopologicalSorter(_predecessors(names))
        try:
            sorter.prepare()
        except CycleError as error:
            # Each of these has a commit before the other one. Take one of them apart.
            apart.add(min(name for name in error.args[1] if name[1] == _TRANSACTION))
        else:
            return _by_time(sorter, groups)


def _name(commit: SourceCommit, apart: Collection[_Name]) -> _Name:
    whole = (commit.transaction or "", _TRANSACTION)
    is_single = commit.transaction is None or whole in apart
    return (commit.table, commit.version) if is_single else whole


def _predecessors(names: Mapping[SourceCommit, _Name]) -> dict[_Name, set[_Name]]:
    """The groups that have the version before a commit of each group."""
    found: dict[_Name, set[_Name]] = {name: set() for name in names.values()}
    by_version = sorted(names, key=lambda commit: (commit.table, commit.version))
    for earlier, later in pairwise(by_version):
        if earlier.table == later.table and names[earlier] != names[later]:
            found[names[later]].add(names[earlier])
    return found


def _by_time(
    sorter: TopologicalSorter[_Name], groups: Mapping[_Name, list[SourceCommit]]
) -> Iterator[list[SourceCommit]]:
    ready: list[tuple[int, _Name]] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, (max(commit.time for commit in groups[name]), name))
        _, name = heapq.heappop(ready)
        yield groups[name]
        sorter.done(name)
