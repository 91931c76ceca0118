"""Writes the rows of captures, and opens them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.change_streams.captures import (
    MODS_PER_RECORD,
    Capture,
    CapturedCommit,
    CapturedGroup,
    CapturedSource,
    compacted,
)
from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.value_capture import ModType, Shown, captured_values
from ...core.folders.file_options import WHOLE_FILES
from ...core.names import quote
from ...storage.state.captures import Captures
from .captured_rows import STORED_COLUMNS, CapturedTable, struct_type

# A file read with these is one whose name is given; no name is a pattern.
_EXACTLY_THESE = {"__globPaths__": "false", **WHOLE_FILES}
_ALL = "*"
_BYTES_OF_A_FILE = 128 * 1024 * 1024
_GROUP = ("stamp", "source_id", "version", "mod_type", "column_set", "first_bucket")


@dataclass(frozen=True, slots=True)
class CaptureFiles:
    """The files of rows of the change streams in one state folder."""

    spark: SparkSession
    captures: Captures

    def write(
        self,
        stream: ChangeStream,
        parts: Sequence[tuple[CapturedTable, DataFrame]],
        span: tuple[int, int],
        now: int,
    ) -> None:
        """Write and publish a capture. If another process publishes it first, nothing is left.

        :param parts: the changed tables, each with the rows to store
        :param span: the first and the last stamp of the capture
        :param now: the stamp of this moment
        """
        self._publish(stream, now, lambda folder: self._written(stream, parts, span, folder))

    def compact(self, stream: ChangeStream, captures: Sequence[Capture], now: int) -> None:
        """Publish several captures as one. The others stay until the next removal, for readers that
        have begun.

        :param now: the stamp of this moment
        """
        sources = {source.source_id: source for each in captures for source in each.sources}
        columns = {name: struct_type(source) for name, source in sources.items()}
        size = sum(file.size_bytes for each in captures for file in each.files)
        rows = self._read(self._paths(stream, captures), columns)
        rows = rows.repartitionByRange(size // _BYTES_OF_A_FILE + 1, "bucket")
        rows = rows.sortWithinPartitions("bucket", "stamp")

        def write(folder: str) -> Capture:
            rows.write.parquet(self.captures.rows_in(stream, folder))
            return compacted(captures, folder, self.captures.written(stream, folder))

        self._publish(stream, now, write)

    def rows(
        self, stream: ChangeStream, captures: Iterable[Capture], source: CapturedSource
    ) -> DataFrame:
        """The rows of a source in several captures, those of other sources among them."""
        return self._read(self._paths(stream, captures), {source.source_id: struct_type(source)})

    def all_rows(self, stream: ChangeStream, captures: Iterable[Capture]) -> DataFrame:
        """The rows of all sources in several captures, without their keys and values."""
        return self._read(self._paths(stream, captures), {})

    def _publish(self, stream: ChangeStream, now: int, write: Callable[[str], Capture]) -> None:
        """Publish what ``write`` wrote into a new folder; if that fails, nothing is left of it."""
        folder = self.captures.new_folder(now)
        is_published = False
        try:
            is_published = self.captures.publish(stream, write(folder))
        finally:
            if not is_published:
                self.captures.remove_rows(stream, folder)

    def _paths(self, stream: ChangeStream, captures: Iterable[Capture]) -> list[str]:
        return [
            f"{self.captures.rows_in(stream, capture.folder)}/{file.name}"
            for capture in captures
            for file in capture.files
        ]

    def _written(
        self,
        stream: ChangeStream,
        parts: Sequence[tuple[CapturedTable, DataFrame]],
        span: tuple[int, int],
        folder: str,
    ) -> Capture:
        sources = {table.source.source_id: table.source for table, _ in parts}
        _together(parts, sources).write.parquet(self.captures.rows_in(stream, folder))
        files = self.captures.written(stream, folder)
        places = {source_id: place for place, source_id in enumerate(sources)}
        commits = (
            CapturedCommit(places[table.source.source_id], *commit)
            for table, _ in parts
            for commit in table.transactions
        )
        groups = self._groups(stream, folder, [name for name, _ in files], sources)
        return Capture(*span, folder, files, tuple(sources.values()), tuple(commits), tuple(groups))

    def _read(self, paths: Sequence[str], columns: Mapping[str, str]) -> DataFrame:
        fields = {**STORED_COLUMNS, **columns}
        schema = ", ".join(f"{quote(name)} {kind}" for name, kind in fields.items())
        return self.spark.read.options(**_EXACTLY_THESE).schema(schema).parquet(*paths)

    def _groups(
        self,
        stream: ChangeStream,
        folder: str,
        names: Collection[str],
        sources: Mapping[str, CapturedSource],
    ) -> Iterable[CapturedGroup]:
        """The groups of the rows in a folder, counted."""
        if not names:
            return
        root = self.captures.rows_in(stream, folder)
        places = {source_id: place for place, source_id in enumerate(sources)}
        # All sources of a capture have the same settings.
        columns = column_set(next(iter(sources.values())))
        rows = self._read([f"{root}/{name}" for name in names], {})
        by_bucket = rows.withColumn("column_set", columns).groupBy(*_GROUP, "bucket").count()
        counts = F.sort_array(F.collect_list(F.struct("bucket", "count")))
        counted = by_bucket.groupBy(*_GROUP).agg(
            F.sum("count").alias("rows"), _cuts(counts).alias("cuts")
        )
        for row in counted.collect():
            group = {name: row[name] for name in _GROUP if name != "source_id"}
            source = places[row.source_id]
            yield CapturedGroup(source=source, rows=row.rows, cuts=tuple(row.cuts), **group)


def _cuts(counts: Column) -> Column:
    """The buckets with which the second and later records of a group begin.

    :param counts: the buckets of a group in order, and how many rows each has
    """

    def next_bucket(so_far: Column, found: Column) -> Column:
        together = so_far["rows"] + found["count"]
        begins = (so_far["rows"] > 0) & (together > MODS_PER_RECORD)
        cuts = F.when(begins, F.concat(so_far["cuts"], F.array(found["bucket"])))
        return F.struct(
            cuts.otherwise(so_far["cuts"]).alias("cuts"),
            F.when(begins, found["count"]).otherwise(together).alias("rows"),
        )

    nothing = F.from_json(F.lit('{"cuts": [], "rows": 0}'), "cuts ARRAY<INT>, rows BIGINT")
    return F.aggregate(counts, nothing, next_bucket, lambda so_far: so_far["cuts"])


def column_set(source: CapturedSource) -> Column:
    """The column set of a stored row, as its group has it."""
    if captured_values(source.value_capture_type, ModType.UPDATE).types is not Shown.MODIFIED:
        return F.lit(_ALL)
    is_update = F.col("mod_type") == ModType.UPDATE.value
    return F.when(is_update, F.col("modified")).otherwise(F.lit(_ALL))


def _together(
    parts: Sequence[tuple[CapturedTable, DataFrame]], sources: Mapping[str, CapturedSource]
) -> DataFrame:
    """The rows of all tables: a column for each source, which is NULL in rows of the others."""
    frames = []
    for table, rows in parts:
        others = [
            F.lit(None).cast(struct_type(source)).alias(source_id)
            for source_id, source in sources.items()
            if source_id != table.source.source_id
        ]
        frames.append(rows.select("*", *others).select(*STORED_COLUMNS, *sources))
    return reduce(DataFrame.unionAll, frames)
