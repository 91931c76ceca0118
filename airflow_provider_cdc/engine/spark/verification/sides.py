"""The two sides of a check, as digests: the source of a stream, and its target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from ...core.archives.definition import CHANGE_TYPE, COMMIT_VERSION, ROW_ID, Archive
from ...core.change_feed.feed_options import ChangeType
from ...core.model.sources import Offset
from ...core.names import quote
from ..archives.archived_changes import FEED_COLUMNS, ArchivedChanges
from ..change_sets.metadata_columns import NUMBER_AS_TEXT
from ..change_sets.row_columns import ROW
from ..change_sets.row_columns import ROW_ID as NUMBER
from ..consumption.keyed_targets import KeyedTarget
from ..session.session_settings import any_version
from .changed_rows import SIGN, ChangedRows
from .row_digests import digested

_SOURCE, _TARGET = 1, -1
_SIGN_OF_CHANGE = f"IF({CHANGE_TYPE} IN ('{ChangeType.INSERT}', '{ChangeType.POSTIMAGE}'), 1, -1)"


class Sides(Protocol):
    """What a check compares. ``key`` are the columns by which differences are named."""

    key: tuple[str, ...]
    columns: tuple[str, ...]

    def source(self, rows: DataFrame) -> DataFrame:
        """All ``rows`` of the source, as the stream's reader returns them."""

    def target(self) -> DataFrame:
        """All rows of the target."""

    def source_changes(self, changed: DataFrame) -> DataFrame:
        """The rows by which the source changed."""

    def target_changes(self, changed: ChangedRows, after: int) -> DataFrame | None:
        """The rows by which the target changed, ``None`` without any.

        :param changed: what its files show
        :param after: the version of the source at the last proof
        """


class CopySides:
    """A source and a table that is a copy of it, compared in the columns of the target.

    :param version: the version of the target
    :param shown: the condition of the target's rows that are compared, by default all
    """

    def __init__(
        self,
        spark: SparkSession,
        target: KeyedTarget,
        source_name: str,
        version: int,
        shown: str = "true",
    ) -> None:
        self._spark = spark
        self._target = target
        self._source_name = source_name
        self._version = version
        self._shown = shown
        self.key = target.key
        self.columns = tuple(target.columns)

    def key_values(self, side: str) -> list[tuple[Column, DataType]]:
        """The columns of the key in the struct ``side``, with their types."""
        return [
            (F.col(f"{side}.{quote(field.name)}"), field.dataType)
            for field in self._target.key_fields
        ]

    def source(self, rows: DataFrame) -> DataFrame:
        """All ``rows`` of the source."""
        return self._digested(rows.select(f"{ROW}.*"), F.lit(1), _SOURCE)

    def target(self) -> DataFrame:
        """All rows of the target."""
        reader = self._spark.read.format("delta").option("versionAsOf", self._version)
        with any_version(self._spark):
            rows = reader.load(self._target.table.location)
        return self._digested(rows.where(self._shown), F.lit(1), _TARGET)

    def source_changes(self, changed: DataFrame) -> DataFrame:
        """The rows by which the source changed."""
        return self._digested(changed, F.col(SIGN), _SOURCE, [SIGN])

    def target_changes(self, changed: ChangedRows, after: int) -> DataFrame | None:
        """The rows by which the target changed, ``None`` without any."""
        if changed.rows is None:
            return None
        shown = changed.rows.where(self._shown)
        return self._digested(shown, F.col(SIGN), _TARGET, [SIGN])

    def _digested(
        self, rows: DataFrame, sign: Column, factor: int, kept: Sequence[str] = ()
    ) -> DataFrame:
        stored = self._target.stored(self._spark, rows, self._source_name, kept)
        return digested(stored, self.key, sign, factor)


class ArchiveSides:
    """A source and what its archive returns, compared in all columns and by row id.

    :param end: the offset of the stream that fills the archive
    """

    def __init__(self, changes: ArchivedChanges, archive: Archive, end: Offset) -> None:
        self._changes = changes
        self._archive = archive
        self._end = end
        self._place = archive.era_at(end.version)
        self.key: tuple[str, ...] = (ROW_ID,)
        self.columns = archive.eras[self._place].layout.column_names

    def source(self, rows: DataFrame) -> DataFrame:
        """All ``rows`` of the source."""
        flat = rows.select(f"{ROW}.*", F.col(NUMBER).alias(ROW_ID))
        return digested(flat, self.key, F.lit(1), _SOURCE)

    def target(self) -> DataFrame:
        """All rows of the target."""
        condition = f"{COMMIT_VERSION} <= {self._end.version}L"
        rows = self._changes.rows_at(self._archive, condition, self._place, with_ids=True)
        return digested(rows, self.key, F.lit(1), _TARGET)

    def source_changes(self, changed: DataFrame) -> DataFrame:
        """The rows by which the source changed."""
        named = changed.select(
            *map(quote, self.columns), F.expr(NUMBER_AS_TEXT).alias(ROW_ID), SIGN
        )
        return digested(named, self.key, F.col(SIGN), _SOURCE)

    def target_changes(self, changed: ChangedRows, after: int) -> DataFrame | None:
        """The rows by which the target changed, ``None`` without any."""
        if changed.rows is None:
            return None
        condition = f"{COMMIT_VERSION} > {after}L AND {COMMIT_VERSION} <= {self._end.version}L"
        history = self._archive.history_to(self._place)
        rows = self._changes.changes(self._archive, condition, self._place, history.steps)
        signed = rows.withColumn(SIGN, F.expr(_SIGN_OF_CHANGE))
        own = [name for name in FEED_COLUMNS if name != ROW_ID]
        return digested(signed.drop(*own), self.key, F.col(SIGN), _TARGET)
