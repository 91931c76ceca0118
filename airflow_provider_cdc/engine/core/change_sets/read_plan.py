"""Decides from the log only how to read a change set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from ..consumption.statement_log import without_undone
from ..delta.log_actions import Commit, DataFile
from ..delta.table_schema import Layout, gives_ids_anew
from ..errors import InvalidRequest
from ..figures import counted, extent_text
from ..names import name_key
from .commit_changes import CommitChanges, commit_changes
from .crafted_log import CHANGE_TYPE_COLUMN
from .net_files import NetFiles, inserted_files, inserts_rows, newborn_files
from .rewrites import net_difference


class Strategy(StrEnum):
    """The ways to read a change set, as plans and outcomes name them.

    ``file_difference`` reads the files in which the two ends of the range differ. ``change_files``
    reads what each commit wrote into the change data feed. ``inserted_files`` reads the files that
    were added. ``initial_rows`` reads all rows at the offset. ``comparison`` reads all rows of
    source and target, to recover a target. ``feed`` reads every change of each commit.
    """

    NOTHING = "nothing"
    FILE_DIFFERENCE = "file_difference"
    CHANGE_FILES = "change_files"
    INSERTED_FILES = "inserted_files"
    INITIAL_ROWS = "initial_rows"
    COMPARISON = "comparison"
    FEED = "feed"


# Opening a file takes as long as reading this many bytes of a large one (decision 0024).
OPENING_BYTES = 256 * 1024
# The strategies that lead to the same net difference.
READING_DIFFERENCES = (Strategy.FILE_DIFFERENCE, Strategy.CHANGE_FILES)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How the change set of a range is read, and why.

    The plan reads ``file_count`` files of ``size_bytes`` in all, for ``commit_count`` commits. The
    plan of a view sums up the plans of its ``tables``, and has the strategy of the one that reads
    the most bytes.
    """

    strategy: Strategy
    file_count: int
    size_bytes: int
    commit_count: int
    reason: str
    tables: tuple[TablePlan, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<ReadPlan {self.strategy.value.replace('_', ' ')}:"
            f" {extent_text(self.size_bytes, self.file_count)},"
            f" {counted(self.commit_count, 'commit')}, {self.reason}>"
        )

    @property
    def cost_bytes(self) -> int:
        """The cost by which plans are compared.

        It is the bytes to read, plus :data:`OPENING_BYTES` for each file.
        """
        return self.size_bytes + self.file_count * OPENING_BYTES


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How the part of one table of a view is read. ``table`` is the table as SQL."""

    table: str
    plan: ReadPlan


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """A plan with the files that it reads.

    It reads ``net`` by file difference, and ``by_commit`` by change files.
    """

    plan: ReadPlan
    net: NetFiles
    by_commit: tuple[CommitChanges, ...] = ()


def plan_inserts(commits: Sequence[Commit]) -> ReadPlan:
    """How to read every row that ``commits`` inserted, as it was inserted."""
    files = [file for _, file in inserted_files(without_undone(commits))]
    if not files:
        return _nothing(commits, "no commit inserted rows")
    size = sum(file.size_bytes for file in files)
    return ReadPlan(
        Strategy.INSERTED_FILES,
        len(files),
        size,
        len(commits),
        "an append-only stream reads only added files",
    )


def inserted_row_count(commits: Sequence[Commit]) -> int | None:
    """How many rows ``commits`` inserted.

    ``None`` if statistics do not show it, or if a commit carried rows over into the files it wrote.
    """
    live = without_undone(commits)
    if any(commit.adds and commit.removes and inserts_rows(commit) for commit in live):
        return None
    return row_count([file for _, file in inserted_files(live)])


def row_count(files: Sequence[DataFile]) -> int | None:
    """How many rows ``files`` hold. ``None`` if statistics do not show it."""
    counts = [None if file.deletion_vector else file.record_count for file in files]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def plan_survivors(commits: Sequence[Commit], layout: Layout | None = None) -> PlannedRead:
    """How to read the rows that were inserted since the offset and still exist.

    Their row ids are above the high-water mark of the offset, and they are in files that were added
    since. So neither removed files nor files that already existed have to be read.

    :param layout: as for :func:`net_difference`
    """
    net = net_difference(commits, layout)
    newborn = newborn_files(commits)
    added = tuple(file for file in net.added if file.path in newborn)
    net = replace(net, removed=(), added=added, revectored=())
    if net.is_empty:
        return PlannedRead(_nothing(commits, "no file with new rows remains"), net)
    reason = "rows inserted since the offset are only in added files"
    plan = ReadPlan(Strategy.INSERTED_FILES, net.file_count, net.size_bytes, len(commits), reason)
    return PlannedRead(plan, net)


def plan_difference(
    commits: Sequence[Commit],
    history: Sequence[Layout],
    forced: Strategy | None = None,
    *,
    has_change_files: bool = True,
) -> PlannedRead:
    """The way that reads the fewest bytes to get the net difference that ``commits`` made.

    Each file counts as its bytes and :data:`OPENING_BYTES`.

    :param history: the layouts that were in force one after the other, the one at the offset first
    :param forced: use this strategy if it is possible
    :param has_change_files: the change files that the commits name still exist
    """
    net = net_difference(commits, history[0])
    if net.is_empty:
        return PlannedRead(_nothing(commits, "no row differs between the start and the end"), net)
    difference = ReadPlan(
        Strategy.FILE_DIFFERENCE, net.file_count, net.size_bytes, len(commits), ""
    )
    obstacle = _obstacle(commits, history) if has_change_files else "change files were removed"
    if obstacle is not None:
        return PlannedRead(replace(difference, reason=obstacle), net)
    by_commit = tuple(commit_changes(commits))
    changes = ReadPlan(
        Strategy.CHANGE_FILES,
        sum(item.file_count for item in by_commit),
        sum(item.size_bytes for item in by_commit),
        len(commits),
        f"the file difference is {_extent(difference)}",
    )
    difference = replace(difference, reason=f"the change files are {_extent(changes)}")
    cheapest = min((difference, changes), key=lambda plan: plan.cost_bytes)
    if forced in READING_DIFFERENCES:
        wanted = difference if forced is Strategy.FILE_DIFFERENCE else changes
        cheapest = replace(wanted, reason=f"it was requested; {wanted.reason}")
    return PlannedRead(cheapest, net, by_commit)


def _extent(plan: ReadPlan) -> str:
    return extent_text(plan.size_bytes, plan.file_count)


def plan_view(tables: Sequence[TablePlan]) -> ReadPlan:
    """How to read the changes of a view whose ``tables`` are read by these plans."""
    plans = [each.plan for each in tables]
    largest = max(tables, key=lambda each: each.plan.size_bytes)
    return ReadPlan(
        largest.plan.strategy,
        sum(plan.file_count for plan in plans),
        sum(plan.size_bytes for plan in plans),
        sum(plan.commit_count for plan in plans),
        f"a view of {len(tables)} tables, most of it from {largest.table}: {largest.plan.reason}",
        tuple(tables),
    )


def plan_initial_rows() -> ReadPlan:
    """How to read the rows at the offset.

    Delta finds the files that hold them. The plan does not count these files.
    """
    return ReadPlan(Strategy.INITIAL_ROWS, 0, 0, 0, "the initial rows were not consumed yet")


def _nothing(commits: Sequence[Commit], reason: str) -> ReadPlan:
    return ReadPlan(Strategy.NOTHING, 0, 0, len(commits), reason)


def _obstacle(commits: Sequence[Commit], history: Sequence[Layout]) -> str | None:
    """Why change files cannot be read, or ``None``."""
    if not any(commit.change_files for commit in commits):
        return "no commit has change files"
    if any(layout.mapping_mode == "id" for layout in history):
        # Delta writes the kind of a change without a field id, and each column must have one here.
        return "columns are mapped by field id, and the change type has none in change files"
    today = history[-1]
    if CHANGE_TYPE_COLUMN in {name_key(name) for name in today.column_names}:
        return f"a column has the name of the change type in change files, {CHANGE_TYPE_COLUMN}"
    is_overwritten = any(gives_ids_anew(before, after) for before, after in pairwise(history))
    if is_overwritten or not all(map(today.reads_files_of, history)):
        return "the current columns cannot read the change files"
    return None


def parse_strategy(name: str | None) -> Strategy | None:
    """The strategy called ``name``, if it reads differences. ``None``: the cheapest.

    :raises InvalidRequest: no such strategy has this name
    """
    if name is None:
        return None
    if name in READING_DIFFERENCES:
        return Strategy(name)
    raise InvalidRequest(
        "engine",
        "cannot read change sets with this strategy",
        cause=f"{name!r} is not a strategy",
        fix=f"set strategy to one of {', '.join(READING_DIFFERENCES)}, or None for the cheapest",
    )
