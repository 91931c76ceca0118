"""Crafted tables: Delta itself reads the files of a range, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.change_sets.crafted_log import (
    BASE_ROW_ID_COLUMN,
    CHANGE_TYPE_COLUMN,
    DEFAULT_VERSION_COLUMN,
    ROW_PLACE_COLUMN,
    ListedFile,
    added_columns,
    batches_by_path,
    crafted_log,
    own_columns,
)
from ...core.delta.deletion_vectors import VectorFiles
from ...core.delta.table_schema import Layout
from ...core.names import quote
from ...storage.files.scratch import Scratch, new_table_id
from ...storage.files.uris import encoded_uri
from .row_columns import NO_ROW_ID, ROW_ID, ROW_VERSION, union


class CraftedTables:
    """Writes and opens the crafted tables of one change set.

    ``roots`` names the written tables; they must stay while the change set is in use.
    """

    def __init__(self, spark: SparkSession, scratch: Scratch) -> None:
        self._spark = spark
        self._scratch = scratch
        self.roots: list[str] = []

    def open(
        self,
        layout: Layout,
        protocol: Mapping[str, Any],
        listed: Sequence[ListedFile],
        extra: Sequence[str],
    ) -> DataFrame:
        """The rows of the ``listed`` files: the columns of ``layout``, the ``extra`` columns of the
        crafted log, row id and row commit version.
        """
        parts = []
        for layer in batches_by_path(listed) or [[]]:
            table_id = new_table_id()
            vectors = VectorFiles(encoded_uri(self._scratch.root_of(table_id)))
            log = crafted_log(
                layout,
                protocol,
                layer,
                table_id,
                vectors,
                has_change_files=CHANGE_TYPE_COLUMN in extra,
            )
            self.roots.append(self._scratch.write_table(table_id, log, vectors.contents()))
            parts.append(self._load(self.roots[-1], layout, extra))
        return union(parts)

    def _load(self, root: str, layout: Layout, extra: Sequence[str]) -> DataFrame:
        table = self._spark.read.format("delta").load(root)
        known = table.metadataColumn("_metadata")
        own = own_columns(layout)
        row_place = F.col(BASE_ROW_ID_COLUMN) + known.getField("row_index")
        if own is None:
            row_id, row_version = known.getField("row_id"), known.getField("row_commit_version")
        else:
            row_id = F.coalesce(quote(own[0]), row_place, F.lit(NO_ROW_ID))
            row_version = F.coalesce(quote(own[1]), DEFAULT_VERSION_COLUMN)
        added = [row_id.alias(ROW_ID), row_version.alias(ROW_VERSION)]
        if ROW_PLACE_COLUMN in extra:
            added.append(row_place.alias(ROW_PLACE_COLUMN))
        rows = table.select("*", *added)
        return rows.drop(*(name for name in added_columns(layout) if name not in extra))
