"""Finds the kind of change of each row by its row id, before the columns of rows are read.

Each file is read twice, whatever the number of commits: once for its row ids and commit versions,
and once for the rows that changed. No row is shuffled.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...core.change_feed.feed_options import ChangeType
from ...core.change_sets.crafted_log import REMOVAL_COLUMN, SIDE_COLUMN, VERSION_COLUMN, Side
from ..change_sets.file_difference import BIT, BUCKET_OF
from ..change_sets.row_columns import BUCKET, ROW_VERSION
from .feed_files import CHANGE_TYPE

# What a crafted log records of a file whose rows are marked.
STATE_COLUMNS = (SIDE_COLUMN, VERSION_COLUMN, REMOVAL_COLUMN)
_ADDED, _REMOVED, _COMMIT = "_cdc_added", "_cdc_removed", "_cdc_commit"
_PRESENT, _WRITTEN = "_cdc_present", "_cdc_written"
_MARKED_BUCKET = "_cdc_marked_bucket"
_INSERTS, _UPDATES, _DELETES = "_cdc_inserts", "_cdc_updates", "_cdc_deletes"
RESERVED = (
    _ADDED,
    _REMOVED,
    _COMMIT,
    _PRESENT,
    _WRITTEN,
    _MARKED_BUCKET,
    _INSERTS,
    _UPDATES,
    _DELETES,
)


def marked(ids: DataFrame, values: DataFrame, updating: Collection[int]) -> DataFrame:
    """The changes in ``values``, each row with the version of its commit and its kind of change.

    A row is in the state before or after a commit, or in both: after one, and before a later one.
    A commit changed a row if it gave the row its own version as row commit version.

    Both frames have the :data:`STATE_COLUMNS`, row id and row commit version. Each row that a
    commit wrote has that commit's version.

    :param ids: the rows by whose ids the changes are found
    :param values: the rows that may have changed
    :param updating: commits that changed rows, and neither inserted nor deleted any; of them
        ``ids`` need only the rows after the commit
    """
    masks = F.broadcast(_masks(_states(ids), updating))
    states = _states(values)
    is_added, is_removed = f"{_COMMIT} = {_ADDED}", f"{_COMMIT} = {_REMOVED}"
    is_change = (
        f"{BUCKET_OF} = {_MARKED_BUCKET}"
        f" AND (({is_added} AND (({_INSERTS} | {_UPDATES}) & {BIT}) <> 0)"
        f" OR ({is_removed} AND (({_DELETES} | {_UPDATES}) & {BIT}) <> 0))"
    )
    changes = states.join(masks, F.expr(is_change))
    is_update = f"({_UPDATES} & {BIT}) <> 0"
    kind = (
        f"if({is_added}, if({is_update}, '{ChangeType.POSTIMAGE}', '{ChangeType.INSERT}'),"
        f" if({is_update}, '{ChangeType.PREIMAGE}', '{ChangeType.DELETE}'))"
    )
    changes = changes.selectExpr("*", f"{kind} AS {CHANGE_TYPE}", f"{_COMMIT} AS {VERSION_COLUMN}")
    return changes.drop(ROW_VERSION, *RESERVED)


def _states(rows: DataFrame) -> DataFrame:
    """``rows`` with the commit that added each row and the one that removed it."""
    states = rows.selectExpr(
        "*",
        f"if({SIDE_COLUMN} <> '{Side.OLD}', {VERSION_COLUMN}, NULL) AS {_ADDED}",
        f"if({SIDE_COLUMN} = '{Side.OLD}', {VERSION_COLUMN}, {REMOVAL_COLUMN}) AS {_REMOVED}",
    )
    return states.drop(*STATE_COLUMNS)


def _masks(states: DataFrame, updating: Collection[int]) -> DataFrame:
    """For each commit and 64 neighbouring row ids: which rows it inserted, updated and deleted."""
    versions = ", ".join(f"{version}L" for version in sorted(updating))
    is_written = f"{ROW_VERSION} = {_ADDED}"
    if updating:
        needs_all = f"{_ADDED} NOT IN ({versions}) OR {_REMOVED} NOT IN ({versions})"
        states = states.where(f"{is_written} OR {needs_all}")
    files = states.groupBy(_ADDED, _REMOVED, F.expr(f"{BUCKET_OF} AS {BUCKET}")).agg(
        F.expr(f"bit_or({BIT}) AS {_PRESENT}"),
        F.expr(f"bit_or(if({is_written}, {BIT}, 0L)) AS {_WRITTEN}"),
    )
    states_of_commits = files.selectExpr(
        BUCKET,
        f"stack(2, {_ADDED}, {_PRESENT}, 0L, {_WRITTEN}, {_REMOVED}, 0L, {_PRESENT}, 0L)"
        f" AS ({_COMMIT}, after, before, written)",
    )
    masks = (
        states_of_commits.where(f"{_COMMIT} IS NOT NULL")
        .groupBy(_COMMIT, BUCKET)
        .agg(*(F.expr(f"bit_or({name}) AS {name}") for name in ("after", "before", "written")))
    )
    # Not all rows before an update were read.
    before = f"if({_COMMIT} IN ({versions}), after, before)" if updating else "before"
    return masks.selectExpr(
        _COMMIT,
        f"{BUCKET} AS {_MARKED_BUCKET}",
        f"after & ~{before} AS {_INSERTS}",
        f"after & {before} & written AS {_UPDATES}",
        f"{before} & ~after AS {_DELETES}",
    ).where(f"({_INSERTS} | {_UPDATES} | {_DELETES}) <> 0")
