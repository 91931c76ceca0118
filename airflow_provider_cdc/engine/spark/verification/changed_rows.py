"""The rows that a range of commits added to a table or removed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.change_sets.crafted_log import SIDE_COLUMN, Side
from ...core.change_sets.rewrites import net_difference
from ...core.delta.log_actions import Commit, DataFile
from ...core.delta.table_schema import Layout
from ...core.model.sources import Offset
from ...storage.delta.range_files import RangeFiles
from ...storage.files.scratch import Scratch
from ...storage.files.stores import Files
from ..change_sets.change_files import with_some_ids
from ..change_sets.listed_rows import ListedRows
from ..change_sets.row_columns import ROW_VERSION

SIGN = "_cdc_sign"
# Operations that rewrite files, or list them again, and keep their rows.
_MAINTENANCE = frozenset({"OPTIMIZE", "REORG", "COMPUTE STATISTICS", "ROW TRACKING BACKFILL"})


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows with Delta's row id and the column :data:`SIGN`: 1 for an added row, -1 for a removed
    one. A row that was only carried into another file is both.

    ``rows`` is ``None`` if nothing changed. ``scratch`` names the folders that must stay while
    ``rows`` is in use. ``size_delta`` is by how many bytes the files of the table grew.
    """

    rows: DataFrame | None
    bytes_read: int
    size_delta: int
    scratch: tuple[str, ...] = ()


def grown_by(commit: Commit) -> int:
    """By how many bytes the files of the table grew."""
    added = sum(file.size_bytes for file in commit.adds)
    return added - sum(file.size_bytes for file in commit.removes)


def _as_checked(commit: Commit) -> Commit:
    """``commit``, with all its files marked as changed if its writer could have chosen otherwise.

    A check does not believe a writer that its commit changes no data. It believes Delta's own
    maintenance.
    """
    if commit.operation in _MAINTENANCE:
        return commit

    def marked(files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
        return tuple(structs.replace(file, data_change=True) for file in files)

    return replace(commit, adds=marked(commit.adds), removes=marked(commit.removes))


def changed_rows(
    spark: SparkSession,
    files: Files,
    scratch: Scratch,
    location: str,
    start: Offset,
    commits: Sequence[Commit],
) -> ChangedRows | None:
    """What ``commits``, which follow ``start``, changed; ``None``: the files do not show it,
    because the columns changed or files are missing.
    """
    layout, protocol = Layout.of(start.metadata), start.protocol
    for commit in commits:
        if commit.metadata is not None and not Layout.of(commit.metadata).reads_as(layout):
            return None
        protocol = commit.protocol or protocol
    grown = sum(map(grown_by, commits))
    net = net_difference([_as_checked(commit) for commit in commits], layout)
    if net.is_empty:
        return ChangedRows(None, 0, grown)
    source = RangeFiles(location, files)
    if source.missing(source.absolute(file) for file in net.files):
        return None
    listed = [with_some_ids(file) for file in source.listed(net)]
    tables = ListedRows(spark, scratch, source)
    rows = tables.open(layout, protocol, listed, (SIDE_COLUMN,)).drop(ROW_VERSION)
    is_added = F.col(SIDE_COLUMN) == Side.NEW.value
    signed = rows.withColumn(SIGN, F.when(is_added, 1).otherwise(-1)).drop(SIDE_COLUMN)
    return ChangedRows(signed, net.size_bytes, grown, tables.roots)
