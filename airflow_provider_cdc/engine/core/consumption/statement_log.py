"""What the log of a target shows about the statements of a consumption.

Each statement writes under its own application id with :data:`APPLY_VERSION`. A fence writes an
empty commit under the same id with the higher :data:`FENCE_VERSION`. Delta accepts at most one
commit of an id and version, and skips a lower version silently. So the log is enough to show the
outcome of a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ..delta.log_actions import Commit, DeletionVector
from ..model.consumption import Consumption
from .live_versions import LiveVersions, restored_version

APPLY_VERSION = 1
FENCE_VERSION = 2

_OWN = "cdc/"
_UNDO = "cdc undo "
_CREATION = "cdc create "
# The writers of these operations choose whether the commit is marked as a data change.
_WRITES = frozenset({"WRITE", "STREAMING UPDATE"})


@dataclass(frozen=True, slots=True)
class StatementState:
    """The outcome of one statement.

    ``applied_version`` is the target's version that holds it (``None``: not applied, or undone
    since). ``fenced``: it can no longer be applied under the current epoch. ``taken_at`` is for a
    statement that replaces its target only while the target is empty: the version that another
    writer wrote to the target first.
    """

    index: int
    applied_version: int | None
    fenced: bool
    metrics: dict[str, int] = field(default_factory=dict)
    taken_at: int | None = None


def application_id(consumption: Consumption, index: int) -> str:
    """The application id under which statement ``index`` writes."""
    return f"{_prefix(consumption, index)}{consumption.epoch}"


def undo_mark(consumption: Consumption) -> str:
    """The user metadata of the RESTORE commits that undo a consumption, or that take back an undo.

    An undo is taken back if it also removed a foreign commit.
    """
    return f"{_UNDO}{consumption.consumption_id}"


def is_own_restore(consumption: Consumption, commit: Commit) -> bool:
    """Whether ``commit`` is a RESTORE that undoes ``consumption``, or takes back such an undo."""
    return commit.user_metadata == undo_mark(consumption)


def without_undone(commits: Sequence[Commit]) -> tuple[Commit, ...]:
    """Consecutive ``commits`` without the files of those that a consumption wrote and then undid.

    Snowflake: a stream returns what committed transactions changed. What was undone before it was
    read counts as never committed, although each statement is a commit of the table. An undo that
    also removed a foreign commit is taken back, so it undoes nothing. The foreign commit counts
    even before the undo is taken back.
    """
    undone = _undone(commits)
    return tuple(
        replace(commit, adds=()) if commit.version in undone else commit for commit in commits
    )


def settled_batch(taken: Sequence[Commit], rest: Iterable[Commit]) -> tuple[Commit, ...]:
    """A batch of :func:`settled` commits: ``taken``, and as many of the ``rest`` as it needs.

    No commit after the batch undoes one of its commits, or takes back one of its undos. A batch
    that ended between a statement and its undo would return what was never committed.

    :param rest: the commits that follow; they are read only if a consumption wrote into ``taken``
    """
    if not any(_is_undo(commit) or APPLY_VERSION in _own_versions(commit) for commit in taken):
        return tuple(taken)
    found = settled([*taken, *rest])
    undone = _undone(found)
    count = min(len(taken), len(found))
    restores = (n for n, each in enumerate(found, 1) if each.operation == "RESTORE")
    ends = [count, *(n for n in restores if n > count)]
    for end in ends:
        batch = found[:end]
        if _undone(batch) == {each.version for each in batch} & undone:
            return batch
    return found


def settled(commits: Sequence[Commit]) -> tuple[Commit, ...]:
    """The first of consecutive ``commits``, up to those that an unfinished undo removed.

    An undo is unfinished if it also removed a foreign commit and is not taken back yet. When it is
    taken back, the commits that it removed count again, and the consumption may be finished. A
    reader that went past the undo would never return the inserts of these commits.
    """
    live, undos = _replayed(commits, _is_undo)
    by_version = {commit.version: commit for commit in commits}

    def is_of_others(version: int, undo: int) -> bool:
        commit = by_version[version]
        is_own = _consumption_id(commit) == _consumption_id(by_version[undo])
        return _changes_something(commit) and not is_own

    first = min(
        (
            min(undone)
            for undo, undone in undos
            if any(is_of_others(version, undo) for version in undone - live)
            # If other writers committed later, the undo is not taken back.
            and not any(is_of_others(version, undo) for version in by_version if version > undo)
        ),
        default=None,
    )
    return tuple(commit for commit in commits if first is None or commit.version < first)


def _undone(commits: Sequence[Commit]) -> set[int]:
    """The versions that a consumption wrote and then undid, as far as ``commits`` show.

    A version is not undone if a user restored it since. It is also not undone if a user's RESTORE
    removed it.
    """
    found: set[int] = set()
    by_undos, by_all = LiveVersions(), LiveVersions()
    by_version = {commit.version: commit for commit in commits}
    writer_of = {commit.version: _consumption_id(commit) for commit in commits}
    for commit in commits:
        restored = restored_version(commit)
        if restored is None and commit.operation == "RESTORE":
            # This is a RESTORE to a timestamp. Only Delta's rules map a timestamp to a version.
            restored = _newest_in(commit, (by_version[version] for version in found))
        if restored is not None and _is_undo(commit):
            own = writer_of[commit.version]
            again = by_undos.up_to(restored)
            undone = by_undos.up_to(by_undos.newest) - again
            found |= {version for version in undone if writer_of[version] == own}
            found -= again
            by_undos.follow(commit, restored)
        else:
            if restored is not None:
                found -= by_all.up_to(restored)
            by_undos.follow(commit)
        by_all.follow(commit, restored)
    return found


def creation_mark(consumer: str) -> str:
    """The user metadata of the commit by which ``consumer`` creates a target."""
    return f"{_CREATION}{consumer}"


def is_unused_creation(consumer: str, commits: Iterable[Commit]) -> bool:
    """Whether a consumption created a table that ``consumer`` may use for its CREATE TABLE AS.

    The table is empty, because nothing was applied to it or all of that was undone. ``consumer``
    can use a table of another consumer only if the log shows that another process ended that
    consumer's consumption. Otherwise that consumer may be about to begin.

    :param commits: all commits that the table ever had
    """
    later = iter(commits)
    created = next(later)
    if not (created.user_metadata or "").startswith(_CREATION):
        return False
    known, ended = [created], created.user_metadata == creation_mark(consumer)
    for commit in later:
        known.append(commit)
        versions = _own_versions(commit)
        if _is_undo(commit):
            ended = True
        elif (commit.user_metadata or "").startswith(_CREATION):
            ended = commit.user_metadata == creation_mark(consumer)
        elif FENCE_VERSION in versions:
            ended = True
        elif APPLY_VERSION not in versions and _changes_something(commit):
            return False
    return ended and _filler(known) is None


def is_applied(commit: Commit) -> bool:
    """Whether a consumption of any stream wrote ``commit`` to apply a statement."""
    return APPLY_VERSION in _own_versions(commit)


def filled_by(commits: Iterable[Commit]) -> str | None:
    """The id of the consumption that filled a table.

    Only consumptions write to the table, one after the other. ``None`` if the table is empty,
    because nothing was applied to it or all of that was undone.

    :param commits: all commits that the table ever had
    """
    filler = _filler(list(commits))
    return None if filler is None else _consumption_id(filler)


def _filler(commits: Sequence[Commit]) -> Commit | None:
    """The last of ``commits`` that a consumption applied and that still counts.

    A commit does not count if it was undone, unless the undo was taken back, or if the table was
    created again since.
    """
    live, _ = _replayed(commits, _is_undo)
    found = None
    for commit in commits:
        if (commit.user_metadata or "").startswith(_CREATION):
            found = None
        if commit.version in live and APPLY_VERSION in _own_versions(commit):
            found = commit
    return found


def _own_versions(commit: Commit) -> list[int]:
    """The version of each application id in ``commit`` that belongs to a consumption of any stream.

    Empty if no consumption wrote ``commit``.
    """
    return [version for app_id, version in commit.transactions.items() if app_id.startswith(_OWN)]


def statement_state(
    consumption: Consumption, index: int, commits: Sequence[Commit]
) -> StatementState:
    """The state of a statement, by all ``commits`` of its target since the consumption began."""
    prefix = _prefix(consumption, index)
    current = application_id(consumption, index)
    live, _ = _replayed(commits, partial(is_own_restore, consumption))
    applied = [
        commit
        for commit in commits
        if commit.version in live
        and any(
            app_id.startswith(prefix) and version == APPLY_VERSION
            for app_id, version in commit.transactions.items()
        )
    ]
    fenced = any(commit.transactions.get(current) == FENCE_VERSION for commit in commits)
    newest = applied[-1] if applied else None
    taken_at = None
    if consumption.statements[index].replaces_leftover:
        before = [each for each in commits if newest is None or each.version < newest.version]
        taken = foreign_commit(consumption, before, first_version=0)
        taken_at = None if taken is None else taken.version
    if newest is None:
        return StatementState(index, None, fenced, taken_at=taken_at)
    return StatementState(index, newest.version, fenced, newest.metrics, taken_at)


def foreign_commit(
    consumption: Consumption, commits: Sequence[Commit], *, first_version: int
) -> Commit | None:
    """The first commit from ``first_version`` on that is neither this consumption's nor neutral.

    A neutral commit, such as OPTIMIZE, changes no data and no metadata of any kind.
    """
    later = (commit for commit in commits if commit.version >= first_version)
    return next((commit for commit in later if _is_foreign(consumption, commit)), None)


def wiped_out(consumption: Consumption, commits: Sequence[Commit]) -> tuple[int, Commit] | None:
    """The version of an undo of ``consumption``, and a foreign commit that it removed for good.

    RESTORE does not see a commit that is written just before it. ``None``: no foreign commit is
    lost, because no undo removed one, or each undo that did was taken back. If there are several
    such undos, the result is about the first.
    """
    live, undos = _replayed(commits, partial(is_own_restore, consumption))
    wiped_at = {version: undo for undo, versions in undos for version in versions}
    lost = [
        (wiped_at[commit.version], commit)
        for commit in commits
        if commit.version not in live and _is_foreign(consumption, commit)
    ]
    return min(lost, key=lambda found: found[0], default=None)


def _replayed(
    commits: Sequence[Commit], is_undo: Callable[[Commit], bool]
) -> tuple[frozenset[int], list[tuple[int, frozenset[int]]]]:
    """The versions of ``commits`` that still count after the last of them, and each undo in order.

    Of an undo, the result has its version and the versions that it removed.
    """
    live = LiveVersions()
    undos = []
    for commit in commits:
        restored = restored_version(commit) if is_undo(commit) else None
        if restored is not None:
            undone = live.up_to(live.newest) - live.up_to(restored)
            undos.append((commit.version, undone))
        live.follow(commit, restored)
    return live.up_to(live.newest), undos


def applied_by(commit: Commit) -> str | None:
    """The id of the consumption whose statement ``commit`` applied; ``None``: no consumption."""
    own = (app_id for app_id in commit.transactions if app_id.startswith(_OWN))
    return next((app_id.removeprefix(_OWN).partition("/")[0] for app_id in own), None)


def _consumption_id(commit: Commit) -> str | None:
    """The id of the consumption that wrote ``commit``, to apply or to undo."""
    if _is_undo(commit):
        return (commit.user_metadata or "").removeprefix(_UNDO)
    return applied_by(commit)


def _newest_in(restore: Commit, undone: Iterable[Commit]) -> int | None:
    """The newest version of the ``undone`` commits that left a file in the state in which
    ``restore`` brought it back.
    """
    back = _states(restore)
    versions = (commit.version for commit in undone if not back.isdisjoint(_states(commit)))
    return max(versions, default=None)


def _states(commit: Commit) -> set[tuple[str, DeletionVector | None]]:
    return {(file.path, file.deletion_vector) for file in commit.adds}


def _is_undo(commit: Commit) -> bool:
    return (commit.user_metadata or "").startswith(_UNDO)


def _is_foreign(consumption: Consumption, commit: Commit) -> bool:
    return _changes_something(commit) and not _is_own(consumption, commit)


def _changes_something(commit: Commit) -> bool:
    sets = commit.metadata or commit.protocol or commit.sets_domains
    # An append, or an overwrite with no rows, can be marked as no data change.
    hides_rows = commit.operation in _WRITES and bool(commit.adds) != bool(commit.removes)
    return bool(commit.changes_data or sets or hides_rows)


def _is_own(consumption: Consumption, commit: Commit) -> bool:
    if commit.user_metadata in (undo_mark(consumption), creation_mark(consumption.consumer)):
        return True
    own = f"{_OWN}{consumption.consumption_id}/"
    # A driver with an earlier epoch is superseded. It may not undo what came under a later epoch.
    return any(
        app_id.startswith(own) and int(app_id.rpartition("/")[2]) <= consumption.epoch
        for app_id in commit.transactions
    )


def _prefix(consumption: Consumption, index: int) -> str:
    return f"{_OWN}{consumption.consumption_id}/{index}/"
