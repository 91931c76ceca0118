"""The rows of listed files, read in the cheapest correct way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ...core.change_sets.crafted_log import ListedFile
from ...core.delta.table_schema import Layout
from ...storage.delta.range_files import RangeFiles
from ...storage.files.scratch import Scratch
from .crafted_tables import CraftedTables
from .plain_rows import PlainFiles


class ListedRows:
    """Opens the files of one change set: simple files as plain Parquet, others through crafted
    tables.
    """

    def __init__(self, spark: SparkSession, scratch: Scratch, source: RangeFiles) -> None:
        self._plain = PlainFiles(spark, scratch, source)
        self._tables = CraftedTables(spark, scratch)

    @property
    def roots(self) -> tuple[str, ...]:
        """What was written for the read; it must stay while the rows are in use."""
        return (*self._plain.roots, *self._tables.roots)

    def open(
        self,
        layout: Layout,
        protocol: Mapping[str, Any],
        listed: Sequence[ListedFile],
        extra: Sequence[str],
        *,
        can_be_pruned: bool = False,
    ) -> DataFrame:
        """The rows of the ``listed`` files: the columns of ``layout``, the ``extra`` columns of the
        crafted log, row id and row commit version.

        :param can_be_pruned: whether a filter on the rows may reach the files, because no row is
            netted
        """
        rows = self._plain.open(layout, protocol, listed, extra, can_be_pruned=can_be_pruned)
        return self._tables.open(layout, protocol, listed, extra) if rows is None else rows
