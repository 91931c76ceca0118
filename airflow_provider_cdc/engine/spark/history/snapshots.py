"""Full snapshots of a source as events: what differs from the rows that the target has now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.errors import InvalidRequest
from ...core.history.events import KIND, REASON, SEQUENCE, Kind
from ...core.history.options import Absent, OnNull
from ...core.names import moment_sql, name_key, quote
from ...storage.files.stores import Files
from .event_rows import bad_key, refusing, stored_columns
from .history_target import HistoryTarget

_NEW, _HELD = "_cdc_new", "_cdc_held"


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Compares snapshots with the targets of one session."""

    spark: SparkSession
    files: Files

    def check_newer(self, target: HistoryTarget, at: datetime) -> None:
        """Refuse a snapshot that is older than the last one.

        :raises InvalidRequest: it is older
        """
        if not target.has_memory(self.files):
            return
        found = self.spark.sql(
            f"SELECT unix_micros(max({SEQUENCE})) FROM delta.{quote(target.memory)}"
            f" WHERE {KIND} = '{Kind.SNAPSHOT}'"
        ).first()
        last = None if found is None else found[0]
        if last is not None and last > _micros(at):
            moment = datetime.fromtimestamp(last / 1_000_000, UTC)
            raise InvalidRequest(
                target.subject,
                "cannot take an older snapshot",
                cause=f"the last one is of {moment.isoformat()}, this one of {at.isoformat()}",
                fix="apply snapshots in the order of their times",
            )

    def events(self, target: HistoryTarget, rows: DataFrame, at: datetime) -> DataFrame:
        """The events by which the target becomes equal to the snapshot ``rows`` at a moment."""
        shape, options = target.shape, target.options
        stored = stored_columns(self.spark, rows, target)
        given = rows.select(*stored)
        bad = bad_key(shape)
        if options.on_null is OnNull.FAIL:
            bad = refusing(bad)
        given = given.withColumn(REASON, bad)
        held = self._held(target)
        if options.absent_scope:
            held = self._in_scope(target, given, held)
        values = F.struct(F.lit(0), *(F.col(quote(name)) for name in shape.values))
        key = [F.col(quote(name)) for name in shape.keys]
        new = given.select(*key, REASON, values.alias(_NEW))
        old = held.select(
            *(each.alias(f"_cdc_k{n}") for n, each in enumerate(key)), values.alias(_HELD)
        )
        same = reduce(
            lambda left, right: left & right,
            (
                F.col(quote(name)) == F.col(f"_cdc_k{number}")
                for number, name in enumerate(shape.keys)
            ),
        )
        pairs = new.join(old, same, "full_outer" if options.absent is Absent.DELETE else "left")
        is_absent = F.col(_NEW).isNull()
        differs = is_absent | F.col(_HELD).isNull() | ~F.col(_NEW).eqNullSafe(F.col(_HELD))
        changed = pairs.where(differs)
        keys = [
            F.coalesce(F.col(quote(name)), F.col(f"_cdc_k{number}")).alias(name)
            for number, name in enumerate(shape.keys)
        ]
        shown = [F.col(f"{_NEW}.{quote(name)}").alias(name) for name in shape.values]
        kind = F.when(is_absent, Kind.DELETE.value).otherwise(Kind.UPSERT.value)
        found = changed.select(
            *keys, *shown, F.expr(moment_sql(at)).alias(SEQUENCE), kind.alias(KIND), F.col(REASON)
        )
        return found.unionByName(self._mark(target, at))

    def _mark(self, target: HistoryTarget, at: datetime) -> DataFrame:
        """The event that says that the whole snapshot was applied."""
        kinds = {name_key(field.name): field.dataType for field in target.schema.fields}
        nothing = [
            F.lit(None).cast(kinds[name_key(name)]).alias(name) for name in target.shape.data
        ]
        return self.spark.range(1).select(
            *nothing,
            F.expr(moment_sql(at)).alias(SEQUENCE),
            F.lit(Kind.SNAPSHOT.value).alias(KIND),
            F.lit(None).cast("string").alias(REASON),
        )

    def _held(self, target: HistoryTarget) -> DataFrame:
        """The rows that the target has now."""
        return self.spark.sql(f"SELECT * FROM {target.sql} WHERE {target.shape.is_current}")

    def _in_scope(self, target: HistoryTarget, rows: DataFrame, held: DataFrame) -> DataFrame:
        """The rows of the target that are in one of the partitions of the snapshot, or have a key
        of it.
        """
        names = list(map(quote, target.options.absent_scope))
        scopes = rows.select(*names).distinct()
        keys = rows.select(*map(quote, target.shape.keys)).distinct()
        inside = held.alias("t").join(scopes.alias("s"), _same(names), "left_semi")
        shape = [quote(name) for name in target.shape.keys]
        moved = held.alias("t").join(keys.alias("s"), _same(shape), "left_semi")
        return inside.union(moved).distinct()


def _same(names: list[str]) -> Column:
    pairs = (F.col(f"t.{name}").eqNullSafe(F.col(f"s.{name}")) for name in names)
    return reduce(lambda left, right: left & right, pairs)


def _micros(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000 + at.microsecond
