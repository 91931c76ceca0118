"""The changes of one watched table as rows of the capture table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType

from ...core.change_feed.feed_options import ChangeType, FeedColumns
from ...core.change_streams.clock import StampedCommit
from ...core.change_streams.definition import CaptureSettings, OnDuplicateKey
from ...core.change_streams.key_ranges import BUCKET_SHIFT, BUCKETS, LEAST_HASH
from ...core.change_streams.layout import Layout as Partitions
from ...core.change_streams.value_capture import ModType, Shown, captured_values
from ...core.change_streams.watches import WatchedTable
from ...core.delta.table_schema import Layout, physical_name
from ...core.model.stream import METADATA_COLUMNS, ColumnStyle
from ...core.names import quote
from ..change_sets.columns import comparable, spark_fields
from .json_values import object_json, some_fields_json, type_json

FEED_COLUMNS = FeedColumns("_feed")
QUARANTINED = "QUARANTINED"
ROW_ID = METADATA_COLUMNS[ColumnStyle.SNOWFLAKE].row_id
CAPTURE_COLUMNS: Mapping[str, str] = {
    "bucket": "INT",
    "stamp": "BIGINT",
    "first_bucket": "INT",
    "table_name": "STRING",
    "version": "BIGINT",
    "mod_type": "STRING",
    "column_set": "STRING",
    "keys": "STRING",
    "new_values": "STRING",
    "old_values": "STRING",
}
# What all changes of a commit have in common.
COMMIT_COLUMNS: Mapping[str, str] = {
    "table_name": "STRING",
    "version": "BIGINT",
    "transaction_id": "STRING",
    "column_types": "STRING",
    "value_capture_type": "STRING",
}
_OLD, _NEW = "_old", "_new"


@dataclass(frozen=True, slots=True)
class Field:
    """A watched column: its name, its type and its place in the table, from 1 on."""

    name: str
    kind: DataType
    ordinal: int
    is_key: bool

    def type_in(self, settings: CaptureSettings) -> dict[str, Any]:
        """The column as ``column_types`` describes it."""
        return {
            "name": self.name,
            "type": json.dumps(type_json(self.kind, settings.int64_as), separators=(",", ":")),
            "is_primary_key": self.is_key,
            "ordinal_position": self.ordinal,
        }


def watched_fields(table: WatchedTable, layout: Layout) -> list[Field]:
    """The columns of the key, and the watched ones beside them, in the order of the table."""
    fields = zip(layout.fields, spark_fields(layout.fields), strict=True)
    found = []
    for ordinal, (given, field) in enumerate(fields, 1):
        is_key = physical_name(given) in table.keys
        if is_key or table.watches(given):
            found.append(Field(field.name, field.dataType, ordinal, is_key))
    return found


@dataclass(frozen=True, slots=True)
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

    def rows(
        self, feed: DataFrame, tasks: int, placed: Callable[[int], Sequence[int]]
    ) -> DataFrame:
        """The rows of the capture table, each task with the buckets of one range.

        Spanner: the key of a row never changes. So an update of the key is a delete and an insert.
        A delete and an insert of a key in one commit is an update.

        :param feed: the change feed of the commits, with the columns :data:`FEED_COLUMNS`
        :param tasks: how many tasks write them
        :param placed: a number for each of so many tasks, which Spark's hash gives to that task
        """
        places = F.array(*map(F.lit, placed(tasks)))
        place = F.element_at(places, F.expr(f"bucket * {tasks} DIV {BUCKETS}").cast("int") + 1)
        rows = self._keyed(feed).withColumn("place", place).repartition(tasks, "place")
        old, new = F.when(F.col("is_old"), F.col("row")), F.when(~F.col("is_old"), F.col("row"))
        paired = rows.groupBy("place", "bucket", "version", "keys").agg(
            F.first(old, ignorenulls=True).alias(_OLD),
            F.first(new, ignorenulls=True).alias(_NEW),
            F.greatest(F.count(old), F.count(new)).alias("count"),
        )
        return self._shown(paired)

    def inserts(self, feed: DataFrame) -> DataFrame | None:
        """The same for a feed in which each row is an insert. Nothing is paired, so no row moves to
        another task. ``None``: several rows have the same key.
        """
        rows = self._keyed(feed)
        key = F.xxhash64("version", "keys").alias("key")
        if not rows.select(key).groupBy("key").count().where("count > 1").isEmpty():
            return None
        none = F.lit(None).cast(rows.schema["row"].dataType)
        paired = rows.select(
            "*", none.alias(_OLD), F.col("row").alias(_NEW), F.lit(1).alias("count")
        )
        return self._shown(paired)

    def _keyed(self, feed: DataFrame) -> DataFrame:
        """The changed rows, each with its key and the bucket of the key."""
        fields = watched_fields(self.table, self.layout)
        bucket = F.shiftrightunsigned(
            F.xxhash64(F.lit(self.table.name), F.col("keys")).bitwiseXOR(F.lit(LEAST_HASH)),
            BUCKET_SHIFT,
        ).cast("int")
        change = F.col(FEED_COLUMNS.change_type)
        is_old = change.isin(ChangeType.DELETE.value, ChangeType.PREIMAGE.value)
        row = F.struct(
            F.lit(0).alias("_"), *(_column(field).alias(_part(field)) for field in fields)
        )
        return feed.select(
            self._keys(fields).alias("keys"),
            F.col(FEED_COLUMNS.commit_version).alias("version"),
            is_old.alias("is_old"),
            row.alias("row"),
        ).withColumn("bucket", bucket)

    @property
    def common(self) -> list[tuple[Any, ...]]:
        """What the changes of each commit have in common, as :data:`COMMIT_COLUMNS`."""
        fields = watched_fields(self.table, self.layout)
        types = [field.type_in(self.settings) for field in fields]
        if not self.table.keys:
            types.append(_ROW_ID_TYPE)
        text = json.dumps(types, separators=(",", ":"))
        capture = self.settings.value_capture_type.value
        return [
            (self.table.name, each.commit.version, self._transaction_id(each), text, capture)
            for each in self.commits
        ]

    def _keys(self, fields: Sequence[Field]) -> Column:
        keys = [field for field in fields if field.is_key]
        as_json = self.settings.int64_as
        if not keys:
            row_id = F.col(quote(ROW_ID))
            return F.to_json(F.struct(row_id.alias(ROW_ID)))
        return object_json(((key.name, _key(key), key.kind) for key in keys), as_json)

    def _shown(self, paired: DataFrame) -> DataFrame:
        """The rows of the capture table from the old and the new row of each changed key."""
        fields = watched_fields(self.table, self.layout)
        values = [field for field in fields if not field.is_key]
        differs = {field.ordinal: _differs(field) for field in values}
        has_old, has_new = F.col(_OLD).isNotNull(), F.col(_NEW).isNotNull()
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
        return kept.select(
            "bucket",
            "stamp",
            self._first_bucket(stamps[0], stamps[-1]).alias("first_bucket"),
            F.lit(self.table.name).alias("table_name"),
            "version",
            "mod_type",
            self._column_set(differs).alias("column_set"),
            "keys",
            self._values(_NEW, values, differs).alias("new_values"),
            self._values(_OLD, values, differs).alias("old_values"),
        ).sortWithinPartitions("bucket", "version")

    def _values(self, side: str, values: Sequence[Field], differs: Mapping[int, Column]) -> Column:
        """``new_values`` or ``old_values`` of each kind of change."""
        as_json = self.settings.int64_as
        row = F.col(side)
        given = [(each, row.getField(_part(each))) for each in values]

        def shown(mod: ModType) -> Column:
            captured = captured_values(self.settings.value_capture_type, mod)
            match captured.new if side == _NEW else captured.old:
                case Shown.NONE:
                    return F.lit("{}")
                case Shown.ALL:
                    return object_json(
                        ((each.name, one, each.kind) for each, one in given), as_json
                    )
                case Shown.MODIFIED:
                    return some_fields_json(
                        ((each.name, one, each.kind, differs[each.ordinal]) for each, one in given),
                        as_json,
                    )

        kind = F.col("mod_type")
        return (
            F.when(kind == ModType.INSERT.value, shown(ModType.INSERT))
            .when(kind == ModType.UPDATE.value, shown(ModType.UPDATE))
            .otherwise(shown(ModType.DELETE))
        )

    def _column_set(self, differs: Mapping[int, Column]) -> Column:
        """The places of the columns beside the key that ``column_types`` has; ``*``: all."""
        capture = self.settings.value_capture_type
        if captured_values(capture, ModType.UPDATE).types is not Shown.MODIFIED:
            return F.lit("*")
        modified = (F.when(each, F.lit(str(ordinal))) for ordinal, each in differs.items())
        is_update = F.col("mod_type") == ModType.UPDATE.value
        return F.when(is_update, F.concat_ws(",", *modified)).otherwise(F.lit("*"))

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

    def _transaction_id(self, commit: StampedCommit) -> str:
        found = commit.commit
        return found.transaction or f"{found.table}:{found.version}"

    def _duplicate(self) -> Column:
        if self.settings.on_duplicate_key is OnDuplicateKey.QUARANTINE:
            return F.lit(QUARANTINED)
        text = F.concat(
            F.lit(f"{DUPLICATE_KEY}{self.table.name} at version "),
            F.col("version").cast("string"),
            F.lit(": "),
            F.col("keys"),
        )
        return F.raise_error(text).cast("string")


DUPLICATE_KEY = "CDC_DUPLICATE_KEY of "
_ROW_ID_TYPE = {
    "name": ROW_ID,
    "type": '{"code":"STRING"}',
    "is_primary_key": True,
    "ordinal_position": 0,
}


def _column(field: Field) -> Column:
    return F.col(quote(field.name))


def _key(field: Field) -> Column:
    """Zero has one sign, so that equal keys have the same text."""
    value = _column(field)
    return value + F.lit(0.0) if isinstance(field.kind, (FloatType, DoubleType)) else value


def _part(field: Field) -> str:
    return f"c{field.ordinal}"


def _differs(field: Field) -> Column:
    old, new = (F.col(side).getField(_part(field)) for side in (_OLD, _NEW))
    return ~comparable(old, field.kind, "old").eqNullSafe(comparable(new, field.kind, "new"))


def _constant(values: Sequence[Any], kind: str) -> Column:
    """A list as a constant: as literals, it would make a long plan."""
    return F.from_json(F.lit(json.dumps(values)), kind)
