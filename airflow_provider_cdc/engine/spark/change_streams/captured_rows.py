"""The changes of one watched table as rows that a capture stores."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, StringType

from ...core.change_feed.feed_options import ChangeType, FeedColumns
from ...core.change_streams.captures import (
    QUARANTINED,
    CapturedColumn,
    CapturedSource,
)
from ...core.change_streams.clock import StampedCommit
from ...core.change_streams.definition import CaptureSettings, Int64As, OnDuplicateKey
from ...core.change_streams.key_ranges import BUCKET_SHIFT, BUCKETS, LEAST_HASH
from ...core.change_streams.layout import Layout as Partitions
from ...core.change_streams.value_capture import ModType, Shown, captured_values
from ...core.change_streams.watches import WatchedTable
from ...core.delta.table_schema import Layout, physical_name
from ...core.model.stream import METADATA_COLUMNS, ColumnStyle
from ...core.names import name_key, quote
from ..change_sets.columns import comparable, spark_fields
from .json_values import spark_type, stored_as, stored_value, type_json
from .stored_json import object_json

ROW_ID = METADATA_COLUMNS[ColumnStyle.SNOWFLAKE].row_id
# The columns of every stored row. Beside them, each source has a column with its name: a struct of
# the keys, the old values and the new ones.
STORED_COLUMNS: Mapping[str, str] = {
    "bucket": "INT",
    "stamp": "BIGINT",
    "version": "BIGINT",
    "first_bucket": "INT",
    "source_id": "STRING",
    "mod_type": "STRING",
    "modified": "STRING",
}
KEYS, OLD, NEW = "k", "o", "n"


def feed_columns(layout: Layout) -> FeedColumns:
    """Names for the columns of a change feed that no column of the table has."""
    taken = set(map(name_key, layout.column_names))
    found = FeedColumns("_feed")
    while not taken.isdisjoint(map(name_key, found.names)):
        found = FeedColumns(f"_{found.prefix}")
    return found


@dataclass(frozen=True, slots=True)
class WatchedColumn:
    """A watched column as it is stored, and the type that it has in its table."""

    stored: CapturedColumn
    kind: DataType

    @property
    def given(self) -> Column:
        """Its values in the change feed."""
        return F.col(quote(self.stored.name))

    @property
    def key(self) -> Column:
        """Its values as a key, stored alike if they are equal, also after the type is widened."""
        if isinstance(self.kind, (FloatType, DoubleType)):
            # Zero has one sign.
            return self.given + F.lit(0.0).cast(self.kind)
        if isinstance(self.kind, DecimalType):
            text = self.given.cast("string")
            is_cut = text.contains(".")
            return F.when(is_cut, F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))).otherwise(text)
        return stored_value(self.given, self.kind, Int64As.STRING)


def part(column: CapturedColumn) -> str:
    """The name of a column within the struct of its source."""
    return f"c{column.ordinal}"


def struct_type(source: CapturedSource) -> str:
    """The type of the column of a source."""

    def of(columns: Sequence[CapturedColumn]) -> str:
        fields = (f"{part(column)}: {spark_type(column.stored_as)}" for column in columns)
        # A struct has a field; a table may have only a key.
        return f"STRUCT<{', '.join(('_: int', *fields))}>"

    values = of(source.values)
    return f"STRUCT<{KEYS}: {of(source.keys)}, {OLD}: {values}, {NEW}: {values}>"


@dataclass(frozen=True)
class CapturedTable:
    """The changes of a watched table that one capture writes.

    :param layout: the columns that all of its commits have
    :param commits: its commits, of consecutive versions
    :param partitions: the layout of the change stream
    """

    table: WatchedTable
    layout: Layout
    commits: Sequence[StampedCommit]
    partitions: Partitions
    settings: CaptureSettings

    @cached_property
    def source(self) -> CapturedSource:
        """The table as the capture describes it."""
        return CapturedSource(
            self.table.name,
            tuple(column.stored for column in self._columns),
            self.settings.value_capture_type,
            self.settings.int64_as,
        )

    @property
    def transactions(self) -> list[tuple[int, int, str]]:
        """Of each commit its version, its stamp and the id of its transaction."""
        return [
            (found.version, each.stamp, found.transaction or f"{found.table}:{found.version}")
            for each in self.commits
            for found in (each.commit,)
        ]

    def rows(
        self, feed: DataFrame, tasks: int, placed: Callable[[int], Sequence[int]]
    ) -> DataFrame:
        """The rows to store, each task with the buckets of one range.

        Spanner: the key of a row never changes. So an update of the key is a delete and an insert.
        A delete and an insert of a key in one commit is an update.

        :param feed: the change feed of the commits, with the columns :func:`feed_columns`
        :param tasks: how many tasks write them
        :param placed: a number for each of so many tasks, which Spark's hash gives to that task
        """
        places = F.array(*map(F.lit, placed(tasks)))
        place = F.element_at(places, F.expr(f"bucket * {tasks} DIV {BUCKETS}").cast("int") + 1)
        rows = self._keyed(feed).withColumn("place", place).repartition(tasks, "place")
        old, new = F.when(F.col("is_old"), F.col("row")), F.when(~F.col("is_old"), F.col("row"))
        # In this order, the rows need no other sort.
        paired = rows.groupBy("hash", "version", KEYS, "bucket", "place").agg(
            F.first(old, ignorenulls=True).alias(OLD),
            F.first(new, ignorenulls=True).alias(NEW),
            F.greatest(F.count(old), F.count(new)).alias("count"),
        )
        return self._stored(paired)

    def inserts(self, feed: DataFrame) -> DataFrame | None:
        """The same for a feed in which each row is an insert. Nothing is paired, so no row moves to
        another task. ``None``: several rows may have the same key.
        """
        rows = self._keyed(feed)
        keys = rows.select(F.xxhash64("version", "hash").alias("key"))
        if not keys.groupBy("key").count().where("count > 1").isEmpty():
            return None
        none = F.lit(None).cast(rows.schema["row"].dataType)
        return self._stored(
            rows.select("*", none.alias(OLD), F.col("row").alias(NEW), F.lit(1).alias("count"))
        )

    @cached_property
    def _columns(self) -> Sequence[WatchedColumn]:
        """The columns of the key, and the watched ones beside them, in the order of the table."""
        fields = zip(self.layout.fields, spark_fields(self.layout.fields), strict=True)
        found = []
        for ordinal, (given, field) in enumerate(fields, 1):
            is_key = physical_name(given) in self.table.keys
            if is_key or self.table.watches(given):
                found.append(self._column(field.name, field.dataType, ordinal, is_key))
        if not self.table.keys:
            found.append(self._column(ROW_ID, StringType(), 0, is_key=True))
        return found

    @property
    def _keys(self) -> Sequence[WatchedColumn]:
        return [column for column in self._columns if column.stored.is_key]

    @property
    def _values(self) -> Sequence[WatchedColumn]:
        return [column for column in self._columns if not column.stored.is_key]

    def _column(self, name: str, kind: DataType, ordinal: int, is_key: bool) -> WatchedColumn:
        described = json.dumps(type_json(kind, self.settings.int64_as), separators=(",", ":"))
        # The text of a decimal key has no zeros that only the scale of its column asks for.
        is_text = is_key and isinstance(kind, DecimalType)
        stored = "string" if is_text else stored_as(kind)
        return WatchedColumn(CapturedColumn(name, ordinal, is_key, described, stored), kind)

    def _keyed(self, feed: DataFrame) -> DataFrame:
        """The changed rows, each with its key, the hash of the key and its bucket."""
        names = feed_columns(self.layout)
        change = F.col(quote(names.change_type))
        is_old = change.isin(ChangeType.DELETE.value, ChangeType.PREIMAGE.value)
        nothing = F.lit(None).cast("int").alias("_")
        rows = feed.select(
            F.struct(
                nothing,
                *(column.key.alias(part(column.stored)) for column in self._keys),
            ).alias(KEYS),
            self._hash.alias("hash"),
            F.col(quote(names.commit_version)).alias("version"),
            is_old.alias("is_old"),
            # A row without any other column is not NULL either.
            F.struct(
                F.lit(0).alias("_"),
                *(column.given.alias(part(column.stored)) for column in self._values),
            ).alias("row"),
        )
        return rows.withColumn("bucket", _bucket(F.col("hash")))

    @property
    def bucket(self) -> Column:
        """The bucket of the key of a row of the table."""
        return _bucket(self._hash)

    @property
    def _hash(self) -> Column:
        return F.xxhash64(F.lit(self.table.name), *(_hashed(key.key, key) for key in self._keys))

    def _stored(self, paired: DataFrame) -> DataFrame:
        """The rows to store from the old and the new row of each changed key."""
        differs = {column.stored.ordinal: _differs(column) for column in self._values}
        has_old, has_new = F.col(OLD).isNotNull(), F.col(NEW).isNotNull()
        is_update = has_old & has_new
        mod = (
            F.when(F.col("count") > 1, self._duplicate())
            .when(is_update, F.lit(ModType.UPDATE.value))
            .when(has_new, F.lit(ModType.INSERT.value))
            .otherwise(F.lit(ModType.DELETE.value))
        )
        is_changed = F.lit(False)
        for each in differs.values():
            is_changed = is_changed | each
        # Spanner: an update that modifies no watched column gives no record.
        kept = paired.where((F.col("count") > 1) | ~is_update | is_changed)
        kept = kept.withColumn("mod_type", mod)
        if self.settings.excluded:
            kept = kept.where(
                ~F.col("mod_type").isin([each.value for each in self.settings.excluded])
            )
        first, stamps = self.commits[0].commit.version, [each.stamp for each in self.commits]
        place = (F.col("version") - first).cast("int")
        kept = kept.withColumn("stamp", F.get(_constant(stamps, "ARRAY<BIGINT>"), place))
        modified = (F.when(each, F.lit(str(ordinal))) for ordinal, each in differs.items())
        is_update_kind = F.col("mod_type") == ModType.UPDATE.value
        source = F.struct(KEYS, self._side(OLD).alias(OLD), self._side(NEW).alias(NEW))
        # The order of hashes is that of buckets, and Spark sorts fastest by a single number.
        return kept.sortWithinPartitions("hash").select(
            "bucket",
            "stamp",
            "version",
            self._first_bucket(stamps[0], stamps[-1]).alias("first_bucket"),
            F.lit(self.source.source_id).alias("source_id"),
            "mod_type",
            F.when(is_update_kind, F.concat_ws(",", *modified)).alias("modified"),
            source.cast(struct_type(self.source)).alias(self.source.source_id),
        )

    def _side(self, side: str) -> Column:
        """The old or the new row; NULL if no record shows any of it."""
        row = F.col(side)
        shown = []
        for mod in ModType:
            captured = captured_values(self.settings.value_capture_type, mod)
            if (captured.new if side == NEW else captured.old) is not Shown.NONE:
                shown.append(mod.value)
        as_json = self.settings.int64_as
        names = {part(column.stored): column.kind for column in self._values}
        given = (
            stored_value(row.getField(name), kind, as_json).alias(name)
            for name, kind in names.items()
        )
        stored = F.struct(F.lit(None).cast("int").alias("_"), *given)
        return F.when(F.col("mod_type").isin([*shown, QUARANTINED]), stored)

    def _first_bucket(self, begin: int, end: int) -> Column:
        """The first bucket of the partition that holds a bucket at the stamp of a commit."""
        steps = [step.at for step in self.partitions.steps if begin < step.at <= end]
        found = self._partition_lookup(begin)
        for at in steps:
            found = F.when(F.col("stamp") < at, found).otherwise(self._partition_lookup(at))
        return found

    def _partition_lookup(self, at: int) -> Column:
        firsts = [
            each.keys.low for each in self.partitions.active_at(at) for _ in range(each.keys.size)
        ]
        return F.get(_constant(firsts, "ARRAY<INT>"), F.col("bucket"))

    def _duplicate(self) -> Column:
        if self.settings.on_duplicate_key is OnDuplicateKey.QUARANTINE:
            return F.lit(QUARANTINED)
        key = ((column, f"{KEYS}.{part(column)}") for column in self.source.keys)
        text = F.concat(
            F.lit(f"{DUPLICATE_KEY}{self.table.name} at version "),
            F.col("version").cast("string"),
            F.lit(": "),
            F.expr(object_json(key, self.settings.int64_as)),
        )
        return F.raise_error(text).cast("string")


DUPLICATE_KEY = "CDC_DUPLICATE_KEY of "


def _bucket(key_hash: Column) -> Column:
    from_least = key_hash.bitwiseXOR(F.lit(LEAST_HASH))
    return F.shiftrightunsigned(from_least, BUCKET_SHIFT).cast("int")


def _hashed(stored: Column, column: WatchedColumn) -> Column:
    """A key in a form whose hash stays if the type of its column is widened."""
    return stored.cast("double") if column.stored.stored_as == "float" else stored


def _differs(column: WatchedColumn) -> Column:
    old, new = (F.col(side).getField(part(column.stored)) for side in (OLD, NEW))
    return ~comparable(old, column.kind, "old").eqNullSafe(comparable(new, column.kind, "new"))


def _constant(values: Sequence[Any], kind: str) -> Column:
    """A list as a constant: as literals, it would make a long plan."""
    return F.from_json(F.lit(json.dumps(values)), kind)
