"""Pairs the rows that each commit removed and added by their row ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.change_feed.feed_options import ChangeType
from ...core.change_feed.feed_plan import Rewrite
from ...core.change_feed.shared_files import PlacedFile, in_both_roles, kept_rows, roles
from ...core.change_sets.crafted_log import VERSION_COLUMN, bytes_of
from ..change_sets.file_difference import HASHED_BYTES, IDS_IN_A_MASK
from ..change_sets.netting import NEW, OLD
from ..change_sets.row_columns import ROW, ROW_ID, ROW_VERSION, in_one, to_group
from ..change_sets.table_changes_reader import MANY_REWRITTEN_ROWS, MOST_MASKS
from ..session.session_settings import may_broadcast
from .feed_files import CHANGE_TYPE, FeedFiles, FeedRows
from .marking import STATE_COLUMNS, marked

_PAIR = (VERSION_COLUMN, ROW_ID)


def paired(
    spark: SparkSession, rows: FeedRows, files: FeedFiles, highest_id: int
) -> DataFrame | None:
    """The changes of commits that both removed and added rows; ``None`` without such commits.

    A commit changed a row if it gave the row another commit version, as an UPDATE does even if it
    writes the same values. Delta's change files hold such an update too. A row that kept its commit
    version was only carried into another file.

    :param highest_id: the highest row id of the table
    """
    if not files.old or not files.new:
        return None
    if _reads_ids_first(files, highest_id) and may_broadcast(spark):
        return _marked(rows, files)
    old, new = rows.open(files.old, (VERSION_COLUMN,)), rows.open(files.new, (VERSION_COLUMN,))
    assert old is not None
    assert new is not None
    columns = [name for name in new.columns if name not in (*_PAIR, ROW_VERSION)]
    listed = [file.listed for file in (*files.old, *files.new)]

    def named(side: DataFrame, name: str) -> DataFrame:
        return to_group(side, listed).selectExpr(
            *_PAIR, f"{in_one(columns)} AS {name}", f"{ROW_VERSION} AS {name}_version"
        )

    before, after = named(old, OLD), named(new, NEW)
    # Spark forgets the length of a CHAR if two types differ only in the metadata of their fields.
    before = before.withColumn(OLD, F.col(OLD).cast(after.schema[NEW].dataType))
    if bytes_of(listed) <= HASHED_BYTES:
        after = after.hint("shuffle_hash")
    pairs = before.join(after, list(_PAIR), "full_outer")
    changed = pairs.where("NOT coalesce(old_version = new_version, false)")
    update = f"{_record(ChangeType.PREIMAGE, OLD)}, {_record(ChangeType.POSTIMAGE, NEW)}"
    changes = changed.selectExpr(
        *_PAIR,
        f"inline(CASE WHEN old_version IS NULL THEN array({_record(ChangeType.INSERT, NEW)})"
        f" WHEN new_version IS NULL THEN array({_record(ChangeType.DELETE, OLD)})"
        f" ELSE array({update}) END)",
    )
    return changes.selectExpr(f"{ROW}.*", *_PAIR, CHANGE_TYPE)


def _marked(rows: FeedRows, files: FeedFiles) -> DataFrame:
    """The changes of :func:`paired`, with the row ids read before the columns."""
    updating = files.commits_that(Rewrite.UPDATES)
    removing = files.commits_that(Rewrite.REMOVES)
    all_files = in_both_roles(files.old, files.new)
    # An update keeps each row, so the rows that it wrote show which rows it changed.
    with_ids = [file for file in all_files if _has_other_role(file, removing=updating)]
    # A delete keeps the values of the rows that are left.
    with_values = [file for file in all_files if _has_other_role(file, adding=removing)]
    ids = rows.open(with_ids, STATE_COLUMNS)
    values = ids if with_values == with_ids else rows.open(with_values, STATE_COLUMNS)
    assert ids is not None
    assert values is not None
    return marked(ids, values, updating)


def _has_other_role(
    file: PlacedFile, *, adding: Collection[int] = (), removing: Collection[int] = ()
) -> bool:
    """Whether ``file`` was added by a commit that is not in ``adding``, or removed by one that is
    not in ``removing``.
    """
    added, removed = roles(file.listed)
    return bool(added.difference(adding) or removed.difference(removing))


def _record(change_type: ChangeType, side: str) -> str:
    return f"named_struct('{CHANGE_TYPE}', '{change_type}', '{ROW}', {side})"


def _reads_ids_first(files: FeedFiles, highest_id: int) -> bool:
    """Whether reading the row ids before the columns is correct and cheaper.

    It is correct if each new row of a commit has that commit's version. A RESTORE brings old commit
    versions back.
    """
    rows: Counter[int | None] = Counter()
    for side in (files.old, files.new):
        of_side: Counter[int | None] = Counter()
        for file in side:
            for version, count in kept_rows(file.listed):
                of_side[version] += count
        rows |= of_side
    masks = sum(min(count, highest_id // IDS_IN_A_MASK + 1) for count in rows.values())
    is_large = rows.total() > MANY_REWRITTEN_ROWS and masks <= MOST_MASKS
    return is_large and not any(map(_is_older, files.new))


def _is_older(file: PlacedFile) -> bool:
    """Whether a commit added ``file`` again that an earlier commit wrote."""
    return file.listed.file.default_row_commit_version != file.listed.version
