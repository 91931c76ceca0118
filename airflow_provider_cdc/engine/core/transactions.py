"""What the log of a target tells about the statements of a consumption.

Each statement writes under an application id of its own with :data:`APPLY_VERSION`; a fence writes
an empty commit under the same id with the higher :data:`FENCE_VERSION`. Delta lets at most one
commit of an id and version land, and skips a lower version silently, so the log alone says what
became of a statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .log_actions import Commit
from .model import Consumption

APPLY_VERSION = 1
FENCE_VERSION = 2


@dataclass(frozen=True, slots=True)
class StatementState:
    """What became of one statement. ``applied_version`` is the target's version that holds it
    (``None``: not applied, or undone since); ``fenced`` says that it can no longer be applied
    under the current epoch.
    """

    index: int
    applied_version: int | None
    fenced: bool
    metrics: dict[str, int] = field(default_factory=dict)


def application_id(consumption: Consumption, index: int) -> str:
    """The id that statement ``index`` writes under."""
    return f"{_prefix(consumption, index)}{consumption.epoch}"


def undo_mark(consumption: Consumption) -> str:
    """The user metadata of the RESTORE commits that undo a consumption, or that take such an undo
    back because it met a foreign commit.
    """
    return f"cdc undo {consumption.consumption_id}"


def is_own_restore(consumption: Consumption, commit: Commit) -> bool:
    """Whether ``commit`` is a RESTORE by which ``consumption`` was undone, or one taken back."""
    return commit.user_metadata == undo_mark(consumption)


def creation_mark(consumer: str) -> str:
    """The user metadata of the commit by which ``consumer`` creates a target of its own."""
    return f"cdc create {consumer}"


def statement_state(
    consumption: Consumption, index: int, commits: Sequence[Commit]
) -> StatementState:
    """What ``commits``, all of the target's since the consumption began, say of a statement."""
    prefix = _prefix(consumption, index)
    current = application_id(consumption, index)
    applied: Commit | None = None
    applied_at: dict[int, Commit | None] = {}
    fenced = False
    for commit in commits:
        if is_own_restore(consumption, commit):
            applied = applied_at.get(int(commit.operation_parameters["version"]))
        for app_id, version in commit.transactions.items():
            if app_id.startswith(prefix) and version == APPLY_VERSION:
                applied = commit
            fenced = fenced or (app_id == current and version == FENCE_VERSION)
        applied_at[commit.version] = applied
    if applied is None:
        return StatementState(index, None, fenced)
    return StatementState(index, applied.version, fenced, dict(applied.operation_metrics))


def foreign_commit(
    consumption: Consumption, commits: Sequence[Commit], *, first_version: int
) -> Commit | None:
    """The first commit from ``first_version`` on that is neither this consumption's nor neutral.

    Neutral are commits that change no data and no metadata, such as OPTIMIZE.
    """
    for commit in commits:
        if commit.version < first_version or _is_own(consumption, commit):
            continue
        if commit.changes_data or commit.metadata or commit.protocol:
            return commit
    return None


def _is_own(consumption: Consumption, commit: Commit) -> bool:
    if commit.user_metadata in (undo_mark(consumption), creation_mark(consumption.consumer)):
        return True
    own = f"cdc/{consumption.consumption_id}/"
    return any(app_id.startswith(own) for app_id in commit.transactions)


def _prefix(consumption: Consumption, index: int) -> str:
    return f"cdc/{consumption.consumption_id}/{index}/"
