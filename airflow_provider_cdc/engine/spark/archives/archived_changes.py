"""The changes in an archive, with the columns that the source has at any of its versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.archives.archive_stream import archived_by
from ...core.archives.definition import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ROW_ID,
    SCHEMA_VERSION,
    Archive,
)
from ...core.archives.evolution import stored_fields
from ...core.archives.replay_point import Reach
from ...core.change_feed.feed_options import ChangeType
from ...core.delta.table_schema import Layout, matching_path
from ...core.delta.type_changes import TypeChange, lossy_change
from ...core.errors import StreamUnusable
from ...core.names import free_name, name_key, quote
from ...storage.registry.registry import Registry
from ..change_sets.columns import in_newer_schema
from ..change_sets.row_columns import in_end_layout, union

FEED_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP, ROW_ID)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = "_cdc_latest"


class ArchivedChanges:
    """Reads archives; it writes nothing."""

    def __init__(self, spark: SparkSession, registry: Registry) -> None:
        self._spark = spark
        self._registry = registry

    def newest(self, archive: Archive) -> int | None:
        """The newest version in ``archive``; ``None`` if it is empty."""
        found = self._table(archive).agg(F.max(COMMIT_VERSION)).head()
        return None if found is None else found[0]

    def reach(self, archive: Archive) -> Reach | None:
        """Through which version ``archive`` holds every change; ``None``: it is not filled yet.

        The newest consumption of its stream shows it even if the newest commits changed no row.
        A later offset does not count, because others may have moved the stream.
        """
        newest = self.newest(archive)
        found = None
        if newest is not None:
            rows = self._table(archive).where(F.col(COMMIT_VERSION) == newest)
            (micros,) = rows.agg(F.max(F.unix_micros(COMMIT_TIMESTAMP))).collect()[0]
            found = Reach(newest, EPOCH + timedelta(microseconds=micros))
        streams = self._registry.snapshot().streams()
        stream = next((each for each in streams if each.stream_id == archive.stream_id), None)
        taken = None if stream is None else archived_by(archive, stream)
        if stream is None or taken is None or taken.through_version < (newest or 0):
            return found
        at_end = stream.offset.version == taken.through_version
        # Delta may date a commit a little later than the commit dates itself.
        moment = max(
            taken.through_timestamp or archive.after_timestamp,
            archive.after_timestamp if found is None else found.timestamp,
            archive.eras[archive.era_at(taken.through_version)].timestamp,
        )
        return Reach(taken.through_version, moment, stream.offset if at_end else None)

    def changes(
        self,
        archive: Archive,
        condition: str,
        place: int,
        steps: Callable[[int], Sequence[Layout]],
    ) -> DataFrame:
        """The changes in ``archive`` that meet ``condition``: the columns of the source, then
        :data:`FEED_COLUMNS`.

        :param condition: on the archive's own columns
        :param place: the index of the last era that has such changes
        :param steps: returns the layouts that lead from the one of an era to the wanted columns
        :raises StreamUnusable: a column has a new type that does not hold its old values
        """
        rows = self._table(archive).where(condition)
        parts = []
        for each in range(place + 1):
            path = steps(each)
            if found := _lossy(path):
                raise _unreadable(archive, found)
            parts.append(in_end_layout(self._of_era(archive, rows, each), path, FEED_COLUMNS))
        return union(parts)

    def rows_at(
        self, archive: Archive, condition: str, place: int, *, with_ids: bool = False
    ) -> DataFrame:
        """The rows of the source after all changes that meet ``condition``.

        A row is what its latest change made of it. The changes of a commit to one row are an insert
        or a delete, or the two images of an update.

        :param place: the index of the era whose columns the rows have
        :param with_ids: add the column :data:`ROW_ID`
        :raises StreamUnusable: a row was written with a type that these columns do not hold
        """
        table = self._table(archive).where(condition)
        table = table.where(F.col(CHANGE_TYPE) != ChangeType.PREIMAGE.value)
        latest = free_name(_LATEST, set(map(name_key, table.columns)))
        ids = table.groupBy(quote(ROW_ID)).agg(F.max(COMMIT_VERSION).alias("version"))
        ids = ids.select(F.struct(F.col(quote(ROW_ID)).alias("id"), "version").alias(latest))
        is_latest = (F.col(quote(ROW_ID)) == F.col(f"{latest}.id")) & (
            F.col(COMMIT_VERSION) == F.col(f"{latest}.version")
        )
        live = table.where(F.col(CHANGE_TYPE) != ChangeType.DELETE.value)
        live = live.join(ids, is_latest, "left_semi")
        history = archive.history_to(place)
        added = [name for name in FEED_COLUMNS if not (with_ids and name == ROW_ID)]
        parts = []
        for each in range(place + 1):
            rows, path = self._of_era(archive, live, each), matching_path(history.steps(each))
            if found := _lossy(path):
                if rows.isEmpty():
                    continue
                raise _unreadable(archive, found)
            parts.append(in_end_layout(rows, path, FEED_COLUMNS).drop(*added))
        return union(parts)

    def _table(self, archive: Archive) -> DataFrame:
        return self._spark.read.format("delta").load(archive.location)

    def _of_era(self, archive: Archive, rows: DataFrame, place: int) -> DataFrame:
        """Those of the archive's ``rows`` that an era holds, with the columns of its layout."""
        era, names = archive.eras[place], archive.names

        def stored(name: str) -> Column:
            return F.col(quote(names[era.columns[name]]))

        columns = in_newer_schema(stored, era.layout.fields, stored_fields(archive, era.columns))
        of_era = rows.where(F.col(SCHEMA_VERSION) == era.version)
        return of_era.select(*columns, *map(quote, FEED_COLUMNS))


def _lossy(path: Sequence[Layout]) -> TypeChange | None:
    changes = (lossy_change(today.fields, then.fields) for then, today in pairwise(path))
    return next((found for found in changes if found is not None), None)


def _unreadable(archive: Archive, found: TypeChange) -> StreamUnusable:
    return StreamUnusable(
        archive.subject,
        "cannot return old changes with other columns",
        cause=f"{found.column} was of type {found.before} and is of type {found.now} in the wanted"
        " columns, which cannot hold every old value",
        fix="read the changes before and after that change of the columns by themselves",
    )
