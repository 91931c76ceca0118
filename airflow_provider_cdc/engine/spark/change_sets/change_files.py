"""Change sets by what each commit wrote into the change data feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...core.commit_changes import CommitChanges
from ...core.crafted_log import (
    BASE_ROW_ID_COLUMN,
    CHANGE_TYPE_COLUMN,
    SIDE_COLUMN,
    VERSION_COLUMN,
    ListedFile,
    Side,
)
from ...storage.range_files import RangeFiles
from .netting import NEW, OLD, changes_of, same_values
from .rows import ROW, ROW_ID

# Far below every position in a file: rows of change files that have no row id get a negative one.
_NO_ROW_IDS = -(1 << 62)
_REMOVALS = ("delete", "update_preimage")
_IS_AFTER = "is_after"
CHANGE_FILE_COLUMNS = (SIDE_COLUMN, VERSION_COLUMN, BASE_ROW_ID_COLUMN, CHANGE_TYPE_COLUMN)


def listed_changes(source: RangeFiles, by_commit: Sequence[CommitChanges]) -> list[ListedFile]:
    """The files that tell the changes of ``by_commit``, each with its commit's version."""
    listed: list[ListedFile] = []
    for item in by_commit:
        for file in item.change_files:
            rows = replace(
                file, base_row_id=_NO_ROW_IDS, default_row_commit_version=item.version, stats=None
            )
            listed.append(ListedFile(Side.CHANGES, source.absolute(rows), item.version))
        listed.extend(
            ListedFile(Side.INSERTED, source.absolute(file), item.version) for file in item.inserted
        )
        listed.extend(
            replace(found, version=item.version) for found in source.listed(item.data_files)
        )
    return listed


def netted_changes(rows: DataFrame) -> DataFrame:
    """The net changes of ``rows``, which tell every change of every commit of the range.

    The first thing that a commit did to a row tells whether it was there at the offset, and as
    what; the last thing tells the same of the end.

    :param rows: with the columns ``CHANGE_FILE_COLUMNS``, row id and row
    """
    side, kind = F.col(SIDE_COLUMN), F.col(CHANGE_TYPE_COLUMN)
    is_told = (
        F.when(side == Side.CHANGES.value, kind != "insert")
        .when(side == Side.INSERTED.value, F.col(ROW_ID) >= F.col(BASE_ROW_ID_COLUMN))
        .otherwise(True)
    )
    is_after = F.when(side == Side.CHANGES.value, ~kind.isin(*_REMOVALS)).otherwise(
        side != Side.OLD.value
    )
    events = rows.where(is_told).select(
        ROW_ID, F.struct(VERSION_COLUMN, is_after.alias(_IS_AFTER)).alias("moment"), ROW
    )
    pairs = events.groupBy(ROW_ID).agg(
        F.min_by(ROW, "moment").alias(OLD),
        F.max_by(ROW, "moment").alias(NEW),
        F.min("moment").getField(_IS_AFTER).alias("was_born"),
        F.max("moment").getField(_IS_AFTER).alias("is_there"),
    )
    return changes_of(
        pairs, ~F.col("was_born"), F.col("is_there"), same_values(rows.schema[ROW].dataType)
    )
