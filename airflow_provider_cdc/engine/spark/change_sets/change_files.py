"""Change sets that are read from what each commit wrote into the change data feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...core.change_sets.commit_changes import CommitChanges
from ...core.change_sets.crafted_log import (
    BASE_ROW_ID_COLUMN,
    CHANGE_TYPE_COLUMN,
    SIDE_COLUMN,
    VERSION_COLUMN,
    ListedFile,
    Side,
)
from ...core.delta.log_actions import DataFile
from ...core.errors import StreamUnusable
from ...core.model.stream import Stream
from ...core.names import spark_literal
from ...storage.delta.range_files import RangeFiles
from .columns import holds_variants
from .netting import NEW, OLD, changes_of, same_values
from .row_columns import ROW, ROW_ID, ROW_VERSION, in_one, to_group

# The base row id of change files. It is so low that a row without a row id gets a negative one.
NO_ROW_IDS = -(1 << 62)
CHANGE_FILE_COLUMNS = (SIDE_COLUMN, VERSION_COLUMN, BASE_ROW_ID_COLUMN, CHANGE_TYPE_COLUMN)


def listed_changes(source: RangeFiles, by_commit: Sequence[CommitChanges]) -> list[ListedFile]:
    """The files that hold the changes of ``by_commit``, each with its commit's version."""
    listed: list[ListedFile] = []
    pairs = (pair for item in by_commit for pair in item.data_files.revectored)
    source.fetch_vectors(file for pair in pairs for file in (pair.old, pair.new))
    for item in by_commit:
        listed.extend(listed_change_file(source, file, item.version) for file in item.change_files)
        listed.extend(
            ListedFile(Side.INSERTED, source.absolute(file), item.version) for file in item.inserted
        )
        listed.extend(
            replace(found, version=item.version) for found in source.listed(item.data_files)
        )
    return listed


def listed_change_file(source: RangeFiles, file: DataFile, version: int) -> ListedFile:
    """The change ``file`` of the commit ``version``."""
    rows = structs.replace(
        file, base_row_id=NO_ROW_IDS, default_row_commit_version=version, stats=None
    )
    return ListedFile(Side.CHANGES, source.absolute(rows), version)


def with_some_ids(file: ListedFile) -> ListedFile:
    """``file`` with row ids if it has none: a crafted log needs them."""
    if None not in (file.file.base_row_id, file.file.default_row_commit_version):
        return file
    ids = structs.replace(file.file, base_row_id=NO_ROW_IDS, default_row_commit_version=0)
    return replace(file, file=ids)


def netted_changes(
    stream: Stream, rows: DataFrame, listed: Sequence[ListedFile], kind: StructType
) -> DataFrame:
    """The net changes of ``rows``, which hold every change of every commit of the range.

    The first change of a row shows whether it existed at the offset, and with which values. The
    last change shows the same for the end of the range.

    The read fails if a row of a change file has no row id.

    :param rows: with the columns of ``kind`` and those of ``CHANGE_FILE_COLUMNS``
    :param listed: the files that hold them
    :param kind: the type of a row
    """
    rows = rows.selectExpr(
        *CHANGE_FILE_COLUMNS, ROW_ID, ROW_VERSION, f"{in_one(kind.names)} AS {ROW}"
    )
    is_change = (
        f"CASE {SIDE_COLUMN} WHEN '{Side.CHANGES.value}' THEN {CHANGE_TYPE_COLUMN} <> 'insert'"
        f" WHEN '{Side.INSERTED.value}' THEN {ROW_ID} >= {BASE_ROW_ID_COLUMN} ELSE true END"
    )
    is_after = (
        f"CASE {SIDE_COLUMN} WHEN '{Side.CHANGES.value}'"
        f" THEN {CHANGE_TYPE_COLUMN} NOT IN ('delete', 'update_preimage')"
        f" ELSE {SIDE_COLUMN} <> '{Side.OLD.value}' END"
    )
    row_version = "CAST(NULL AS BIGINT)"
    if holds_variants(kind):
        # Change files hold rows that their commit wrote. Not every writer keeps a row's earlier
        # commit version there. If a writer does not, the row has the version of that commit too,
        # and its earlier version is unknown.
        row_version = (
            f"CASE WHEN {SIDE_COLUMN} = '{Side.CHANGES.value}' AND (is_after OR {ROW_VERSION} ="
            f" {VERSION_COLUMN}) THEN NULL ELSE {ROW_VERSION} END"
        )
    stop = f"raise_error({spark_literal(str(_without_row_ids(stream)))})"
    row_id = (
        f"CASE WHEN {SIDE_COLUMN} = '{Side.CHANGES.value}' AND {ROW_ID} < 0 THEN {stop}"
        f" ELSE {ROW_ID} END"
    )
    image = f"struct({row_version} AS {ROW_VERSION}, {ROW})"
    pairs = (
        to_group(rows, listed)
        .where(is_change)
        .selectExpr("*", f"{is_after} AS is_after")
        .selectExpr(
            f"{row_id} AS {ROW_ID}",
            # A row before a commit sorts before the row after it.
            f"2 * {VERSION_COLUMN} + CAST(is_after AS INT) AS moment",
            # Each row keeps only one side, so that nothing is shuffled twice.
            f"CASE WHEN NOT is_after THEN {image} END AS before",
            f"CASE WHEN is_after THEN {image} END AS after",
        )
        .groupBy(ROW_ID)
        .agg(F.expr("min_by(before, moment) AS first"), F.expr("max_by(after, moment) AS last"))
        .selectExpr(
            ROW_ID,
            f"first.{ROW} AS {OLD}",
            f"last.{ROW} AS {NEW}",
            f"first.{ROW_VERSION} = last.{ROW_VERSION} AS carried_over",
        )
    )
    was, is_now = f"{OLD} IS NOT NULL", f"{NEW} IS NOT NULL"
    carried_over = F.expr("coalesce(carried_over, false)")
    return changes_of(pairs, was, is_now, carried_over | same_values(kind))


def _without_row_ids(stream: Stream) -> StreamUnusable:
    """The error of a read of change files in which rows other than inserted ones have no row id.
    Such rows cannot be distinguished. The protocol does not require writers to keep row ids there.
    """
    return StreamUnusable(
        f"stream {stream.name}",
        "cannot be read by change files",
        cause=f"rows in change files of {stream.source.name} have no row id, because their writer"
        " wrote none",
        fix="read or consume it in a notebook or a script, with an engine that has"
        ' strategy="file_difference", which does not need change files',
    )
