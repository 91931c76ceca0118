"""What may wait in a range, from the log alone: its files, and its rows if statistics show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..delta.log_actions import Commit
from ..delta.table_schema import Layout
from ..figures import known_sum
from ..model.stream import AppendSemantics, Stream, StreamMode
from .net_files import NetFiles, fold, restores_files
from .new_files import unread_files
from .read_plan import Strategy, inserted_row_count, plan_inserts, plan_survivors
from .rewrites import net_difference


@dataclass(frozen=True, slots=True)
class Candidates:
    """The files of a range that may hold a change for a stream's mode: whether there are any, and
    their size in bytes. ``nets`` are these files, except those that commits only inserted.
    """

    are_there: bool
    size_bytes: int
    nets: tuple[NetFiles, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """The rows of the change set of a range, as far as the log shows them.

    ``count`` is their number, and ``are_there`` says whether there are any. ``None``: only a read
    of the files shows it.
    """

    count: int | None
    are_there: bool | None


def candidates(
    stream: Stream, commits: Sequence[Commit], layout: Layout | None = None
) -> Candidates:
    """The files of ``commits`` that may hold a change for the mode of ``stream``.

    :param layout: as for :func:`net_difference`
    """
    if stream.mode is StreamMode.INSERT_ONLY:
        unread = unread_files(commits)
        return Candidates(bool(unread.files), unread.plan.size_bytes)
    if stream.mode is StreamMode.FEED:
        nets = tuple(fold([commit]) for commit in commits if commit.changes_data)
        return Candidates(bool(nets), sum(net.size_bytes for net in nets), nets)
    if stream.mode is StreamMode.STANDARD:
        net = net_difference(commits, layout)
        return Candidates(not net.is_empty, net.size_bytes, (net,))
    if stream.append_semantics is AppendSemantics.INSERTED:
        plan = plan_inserts(commits)
        return Candidates(plan.strategy is not Strategy.NOTHING, plan.size_bytes)
    found = plan_survivors(commits, layout)
    is_there = found.plan.strategy is not Strategy.NOTHING
    return Candidates(is_there, found.plan.size_bytes, (found.net,))


def waiting_rows(stream: Stream, commits: Sequence[Commit], found: Candidates) -> WaitingRows:
    """The rows of the change set that ``stream`` returns of the table of ``commits``.

    Commits that only add rows, or that only delete rows by deletion vectors, can be counted. An
    UPDATE, a MERGE or an overwrite writes files with new and with old rows, so its changes cannot
    be counted. Delta keeps no statistics of removed files. If the two ends hold different numbers
    of rows, there is certainly a change.

    :param found: the candidates of the same range
    """
    if not found.are_there:
        return WaitingRows(0, False)
    count = _count(stream, commits, found)
    if count is not None:
        return WaitingRows(count, count > 0)
    is_netted = stream.mode in (StreamMode.STANDARD, StreamMode.FEED)
    return WaitingRows(None, True if is_netted and any(map(_differs, found.nets)) else None)


def _count(stream: Stream, commits: Sequence[Commit], found: Candidates) -> int | None:
    if stream.mode is StreamMode.INSERT_ONLY:
        return None
    if stream.mode is not StreamMode.APPEND_ONLY:
        return known_sum(map(_changed_rows, found.nets))
    if stream.append_semantics is AppendSemantics.INSERTED:
        return inserted_row_count(commits)
    if any(commit.adds and commit.removes for commit in commits) or any(
        map(restores_files, commits)
    ):
        return None
    return known_sum(file.live_row_count for net in found.nets for file in net.added)


def _changed_rows(net: NetFiles) -> int | None:
    """How many rows only one end of ``net`` holds; ``None`` if rows may be at both ends."""
    if net.is_empty:
        return 0
    if net.has_both_sides and (net.added or net.restores_files):
        return None
    rows = known_sum(file.live_row_count for file in (*net.added, *net.removed))
    deleted = _deleted_by_vectors(net)
    # Fewer deleted rows: a writer brought some back, and may have deleted others.
    return None if rows is None or deleted < 0 else rows + deleted


def _differs(net: NetFiles) -> bool:
    """Whether the two ends of ``net`` certainly hold different numbers of rows."""
    added = known_sum(file.live_row_count for file in net.added)
    removed = known_sum(file.live_row_count for file in net.removed)
    if added is None or removed is None:
        return False
    return added != removed + _deleted_by_vectors(net)


def _deleted_by_vectors(net: NetFiles) -> int:
    """How many rows more the deletion vectors list at the end. Only a RESTORE shortens them."""
    return sum(pair.new.deleted_row_count - pair.old.deleted_row_count for pair in net.revectored)
