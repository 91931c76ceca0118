"""When the row ids of a source are reliable: change tracking, and the identity of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ChangeTrackingDisabled, StreamStale
from ..model.sources import Offset
from ..model.stream import Stream
from .log_actions import ROW_ID_SETTING, ROW_VERSION_SETTING, Commit, TableState

ENABLED = "delta.enableRowTracking"
_MATERIALIZED_COLUMNS = (
    ROW_ID_SETTING,
    ROW_VERSION_SETTING,
)
_REASSIGNING_OPERATIONS = frozenset({"ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL"})
# Operations that carry rows into other files. Commits that change no data also carry rows. All rows
# that other operations write are new, even if they replace rows.
_CARRYING_OPERATIONS = frozenset(
    {"UPDATE", "DELETE", "MERGE", "OPTIMIZE", "REORG", "REMOVE COLUMN MAPPING"}
)
_WRITE, _CLONE = "WRITE", "CLONE"
# The predicates of a DELETE of all rows.
_OF_ALL_ROWS = ("[]", '["true"]')
_DYNAMIC = "isDynamicPartitionOverwrite"
# Operations after which a table has only the rows of the same commit.
_REPLACING_OPERATIONS = frozenset(
    {"TRUNCATE", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "CLONE"}
    | {"REPLACE TABLE AS SELECT", "CREATE OR REPLACE TABLE AS SELECT"}
)
# The parameters that show an overwrite of part of a table. Such an overwrite carries over the other
# rows of its files.
_REPLACED = ("predicate", "replaceOnCond", "replaceUsingCols")


def is_tracked(metadata: Mapping[str, Any]) -> bool:
    """Whether row tracking is switched on in a ``metaData`` action."""
    return is_on(metadata, ENABLED)


def is_on(metadata: Mapping[str, Any], setting: str) -> bool:
    """Whether the table property ``setting`` is true in a ``metaData`` action."""
    configuration = metadata.get("configuration") or {}
    return str(configuration.get(setting, "false")).lower() == "true"


def offset_of(state: TableState) -> Offset:
    """The offset right after ``state``'s version."""
    return Offset(
        version=state.version,
        fingerprint=state.fingerprint,
        timestamp=state.timestamp,
        metadata=state.metadata,
        protocol={name: value for name, value in state.protocol.items() if value is not None},
        row_id_high_water_mark=state.row_id_high_water_mark,
    )


def offset_before(first: TableState) -> Offset:
    """The offset before ``first``, the state at version 0: no row, and no row id yet."""
    return replace(offset_of(first), version=-1, fingerprint="", row_id_high_water_mark=-1)


def precedes_all(offset: Offset) -> bool:
    """Whether ``offset`` is before version 0, when the table had no rows."""
    return offset.version < 0


def describe_offset(offset: Offset) -> str:
    """The place of ``offset``, for messages."""
    return "before version 0" if precedes_all(offset) else f"at version {offset.version}"


def offset_after(offset: Offset, commits: Sequence[Commit]) -> Offset:
    """The offset after ``commits``, which follow ``offset``."""
    if not commits:
        return offset
    metadata, protocol = offset.metadata, offset.protocol
    high_water_mark = offset.row_id_high_water_mark
    for commit in commits:
        metadata = metadata if commit.metadata is None else commit.metadata
        protocol = protocol if commit.protocol is None else commit.protocol
        if commit.row_id_high_water_mark is not None:
            high_water_mark = commit.row_id_high_water_mark
    last = commits[-1]
    return offset_of(
        TableState(
            last.version, last.timestamp, last.fingerprint, metadata, protocol, high_water_mark
        )
    )


def check_source(stream: Stream, through: Offset) -> None:
    """Refuse a range whose end is not the table on which the stream was created.

    Snowflake: recreating a table makes its streams stale, and a new table under the old name is not
    linked to them.

    :raises StreamStale: the table was replaced
    """
    found = through.table_id
    if found != stream.source.table_id:
        raise StreamStale(
            f"stream {stream.name}",
            f"is stale, its source {stream.source.name} was replaced",
            cause=f"expected table id {stream.source.table_id}, found {found}",
            fix=stream.way_back,
        )


def keeps_tracking(stream: Stream, metadata: Mapping[str, Any]) -> bool:
    """Whether ``metadata`` is of the source of ``stream``, and keeps its row ids as at the offset.

    Row tracking must be on, and the columns that keep row ids must be those at the offset.
    """
    at_offset = stream.offset.metadata
    return (
        metadata.get("id") == stream.source.table_id
        and is_tracked(metadata)
        and _materialized(metadata) == _materialized(at_offset)
    )


def loses_row_ids(commit: Commit) -> bool:
    """Whether rows that ``commit`` carried into other files may have got new row ids there.

    One example is an UPDATE, or an overwrite by a condition, that was planned before row tracking
    was switched on and committed after that. Another example is an overwrite with the option
    ``dataChange`` false. A writer that kept the ids records that (protocol, "Writer Requirements
    for Row Tracking").
    """
    carries_rows = (
        commit.operation in _CARRYING_OPERATIONS
        or not commit.changes_data
        # For an overwrite, Delta records that it did not keep row ids, or records nothing.
        or (commit.preserves_row_ids is False and _replaces_a_part(commit))
    )
    if not carries_rows or commit.preserves_row_ids:
        return False
    removed = {file.path for file in commit.removes}
    return bool(removed) and any(file.path not in removed for file in commit.adds)


def _assigns_row_ids(commit: Commit) -> bool:
    """Whether ``commit`` gave existing rows new row ids, and changed nothing else."""
    # A batch assigns no ids if another writer has removed its files meanwhile.
    return commit.operation in _REASSIGNING_OPERATIONS and bool(commit.adds)


def replaces_all_rows(commit: Commit) -> bool:
    """Whether the table has only the rows of ``commit`` itself after it."""
    parameters = commit.operation_parameters
    if commit.operation == _WRITE:
        is_dynamic = str(parameters.get(_DYNAMIC)).lower() == "true"
        is_overwrite = parameters.get("mode") == "Overwrite"
        return is_overwrite and not is_dynamic and not _replaces_a_part(commit)
    if commit.operation == "STREAMING UPDATE":
        return parameters.get("outputMode") == "Complete"
    if commit.operation == "DELETE":
        return parameters.get("predicate") in _OF_ALL_ROWS
    return commit.operation in _REPLACING_OPERATIONS


def _replaces_a_part(commit: Commit) -> bool:
    return commit.operation == _WRITE and any(
        name in commit.operation_parameters for name in _REPLACED
    )


def hides_rows(commit: Commit) -> bool:
    """Whether ``commit`` added new rows, or removed rows, and is marked as no data change.

    An append, or an overwrite with no rows, does so with the option ``dataChange`` false.
    """
    if commit.changes_data or _assigns_row_ids(commit):
        return False
    if commit.removes:
        # Dropping the feature removes files of deletion vectors in the same way. They have no row
        # ids.
        return not commit.adds and any(file.base_row_id is not None for file in commit.removes)
    return any(file.default_row_commit_version == commit.version for file in commit.adds)


def check_tracking(stream: Stream, commits: Sequence[Commit]) -> None:
    """Refuse a range in which row ids were not kept, or were assigned again.

    :raises ChangeTrackingDisabled: row tracking is off at the end of the range
    :raises StreamStale: row tracking was off in between, or row ids were assigned again
    """
    wanted = _materialized(stream.offset.metadata)
    gap: str | None = None
    tracked = True
    for commit in commits:
        gap = gap or row_id_gap(commit)
        if commit.metadata is None:
            continue
        tracked = is_tracked(commit.metadata)
        if not tracked:
            gap = f"version {commit.version} switched row tracking off"
        elif _materialized(commit.metadata) != wanted:
            gap = f"version {commit.version} set up row tracking again"
    if gap is None:
        return
    error = StreamStale if tracked else ChangeTrackingDisabled
    raise error(
        f"stream {stream.name}",
        f"cannot determine what changed in {stream.source.name}",
        cause=gap,
        fix=stream.way_back if tracked else f"switch it on again, and {stream.way_back}",
    )


def row_id_gap(commit: Commit) -> str | None:
    """Why the row ids before and after ``commit`` do not show what it changed; ``None`` if they do.

    Whether row tracking was on is not checked here.
    """
    if _assigns_row_ids(commit):
        return f"version {commit.version} assigned row ids again"
    if hides_rows(commit):
        return (
            f"version {commit.version}, {commit.operation}, added or removed rows, but"
            " is marked as changing no data"
        )
    if commit.operation == _CLONE and commit.version > 0:
        # A clone keeps the table's id, and brings rows and column ids of another table.
        return f"a clone replaced the table in version {commit.version}"
    if loses_row_ids(commit):
        return f"version {commit.version}, {commit.operation}, did not keep the row ids"
    return None


def reassigns_columns(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether carried rows keep their row ids in other columns ``after`` than ``before``."""
    return _materialized(before) != _materialized(after)


def _materialized(metadata: Mapping[str, Any]) -> tuple[str | None, ...]:
    configuration = metadata.get("configuration") or {}
    return tuple(configuration.get(name) for name in _MATERIALIZED_COLUMNS)
