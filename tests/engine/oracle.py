"""The expected change set, by Spark's own time travel and without the engine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantVal
from streams import delta_row_id, new_stream

from airflow_provider_cdc.engine.catalog.read_plans import ReadPlanner
from airflow_provider_cdc.engine.core.change_sets.read_plan import ReadPlan, Strategy
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.model.stream import (
    METADATA_COLUMNS,
    AppendSemantics,
    ColumnStyle,
    Stream,
    StreamMode,
)
from airflow_provider_cdc.engine.spark.change_sets.table_changes_reader import (
    ChangeSet,
    ChangeSetReader,
)
from airflow_provider_cdc.engine.storage.files.scratch import Scratch
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.files.uris import join
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

FILES = Files()


class Change(NamedTuple):
    """One row of a change set; ``values`` are plain, hashable and in the order of the columns."""

    action: str
    is_update: bool
    row_id: int
    values: tuple[Any, ...]


def insert(row_id: int, *values: Any) -> Change:
    return Change("INSERT", False, row_id, values)


def delete(row_id: int, *values: Any) -> Change:
    return Change("DELETE", False, row_id, values)


def update(row_id: int, old: tuple[Any, ...], new: tuple[Any, ...]) -> list[Change]:
    return [Change("DELETE", True, row_id, old), Change("INSERT", True, row_id, new)]


@dataclass(frozen=True)
class Snapshot:
    """The rows of a version; each row begins with its row id."""

    schema: StructType
    rows: list[Row]

    def rows_by_id(
        self, today: StructType, old: Mapping[str, str | None]
    ) -> dict[int, tuple[Any, ...]]:
        found = {row[0]: plain_row(row[1:], self.schema, today, old) for row in self.rows}
        assert len(self.rows) == len(found)
        return found


@dataclass
class SourceTable:
    """A Delta table at a path, with streams on it and the oracle to compare them with."""

    spark: SparkSession
    location: str
    scratch: Scratch
    strategy: Strategy | None = None
    snapshots: dict[tuple[int, datetime], Snapshot] = field(default_factory=dict)

    @property
    def reader(self) -> ChangeSetReader:
        return ChangeSetReader(self.spark, FILES, self.scratch, self.strategy)

    def read_by(self, strategy: Strategy) -> SourceTable:
        """The same table, read by ``strategy`` where that is possible."""
        return replace(self, strategy=strategy)

    @property
    def name(self) -> str:
        return f"delta.`{self.location}`"

    @property
    def version(self) -> int:
        return SourceLog(FILES).newest_offset(self.location).version

    def sql(self, *statements: str) -> None:
        """Run statements in which ``{t}`` is the table."""
        for statement in statements:
            self.spark.sql(statement.replace("{t}", self.name)).collect()

    def overwrite(self, columns: str) -> None:
        """Replace rows and schema by one row of these columns."""
        row = self.spark.sql(f"SELECT {columns}").write.format("delta").mode("overwrite")
        row.option("overwriteSchema", True).save(self.location)

    def stream(
        self,
        mode: StreamMode = StreamMode.STANDARD,
        semantics: AppendSemantics = AppendSemantics.INSERTED,
        style: ColumnStyle = ColumnStyle.SNOWFLAKE,
    ) -> Stream:
        offset = SourceLog(FILES).newest_offset(self.location)
        table_id = offset.table_id
        return new_stream(
            source=Source("the source", self.location, table_id),
            mode=mode,
            append_semantics=semantics,
            column_style=style,
            offset=offset,
        )

    def inserted(self) -> Stream:
        return self.stream(StreamMode.APPEND_ONLY, AppendSemantics.INSERTED)

    def surviving(self) -> Stream:
        return self.stream(StreamMode.APPEND_ONLY, AppendSemantics.SURVIVING)

    def read(self, stream: Stream, through: int | None = None) -> ChangeSet:
        return self.reader.read(SourceLog(FILES).range(stream, through=through))

    def plan(self, stream: Stream) -> ReadPlan:
        return ReadPlanner(FILES, self.strategy).of_stream(SourceLog(FILES).span(stream))

    def may_have_data(self, stream: Stream) -> bool:
        return SourceLog(FILES).probe(stream).may_have_data

    def changes(self, stream: Stream, through: int | None = None) -> Counter[Change]:
        """The change set of the engine."""
        rows = self.read(stream, through).rows
        names = METADATA_COLUMNS[stream.column_style]
        assert rows.columns[-3:] == [names.action, names.is_update, names.row_id]
        schema = StructType(rows.schema.fields[:-3])
        return Counter(
            Change(row[-3], row[-2], delta_row_id(row[-1]), plain_row(row, schema, schema))
            for row in rows.collect()
        )

    def expected(
        self, stream: Stream, through: int | None = None, old: Mapping[str, str | None] = {}
    ) -> Counter[Change]:
        """The change set by the two snapshots.

        :param old: maps today's columns to their names at the offset, where these differ; ``None``
            if today's column of that name is another column
        """
        then = self._snapshot(stream.offset.version)
        today = self._snapshot(self.version if through is None else through)
        before = then.rows_by_id(today.schema, old)
        after = today.rows_by_id(today.schema, {})
        changes: list[Change] = []
        for row_id in before.keys() | after.keys():
            if row_id not in before:
                changes.append(insert(row_id, *after[row_id]))
            elif row_id not in after:
                changes.append(delete(row_id, *before[row_id]))
            elif before[row_id] != after[row_id]:
                changes.extend(update(row_id, before[row_id], after[row_id]))
        return Counter(changes)

    def check(
        self, stream: Stream, through: int | None = None, old: Mapping[str, str | None] = {}
    ) -> list[Change]:
        """The sorted changes of ``stream``, after comparing them with the oracle."""
        found = self.changes(stream, through)
        expected = self.expected(stream, through, old)
        assert found == expected, {"missing": expected - found, "extra": found - expected}
        if expected:
            assert self.may_have_data(stream)
        return sorted(found.elements(), key=repr)

    def check_inserts(self, stream: Stream) -> list[Change]:
        """Like :meth:`check`, for a stream that returns the rows inserted since its offset that
        still exist.
        """
        expected = Counter(
            change
            for change in self.expected(stream).elements()
            if change.action == "INSERT" and change.row_id > stream.offset.row_id_high_water_mark
        )
        assert self.changes(stream) == expected
        if expected:
            assert self.may_have_data(stream)
        return sorted(expected, key=repr)

    def snapshot(self, version: int) -> DataFrame:
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.location)

    def _snapshot(self, version: int) -> Snapshot:
        """The rows that Spark reads at ``version``, read only once."""
        key = version, FILES.modified(join(self.location, "_delta_log", f"{version:020d}.json"))
        if key not in self.snapshots:
            table = self.snapshot(version)
            row_id = table.metadataColumn("_metadata").getField("row_id")
            columns = [table[f"`{_escaped(name)}`"] for name in table.columns]
            self.snapshots[key] = Snapshot(table.schema, table.select(row_id, *columns).collect())
        return self.snapshots[key]


# Makes a tracked table at a path of its own; see the fixture ``make_table``.
MakeTable = Callable[..., SourceTable]


def at(stream: Stream, table: SourceTable) -> Stream:
    """``stream`` with its offset at the table's newest version."""
    return stream.with_offsets(table.stream().offset)


def plain_row(
    row: Any, then: StructType, today: StructType, old: Mapping[str, str | None] = {}
) -> tuple[Any, ...]:
    positions = {item.name.lower(): index for index, item in enumerate(then.fields)}
    values = []
    for item in today.fields:
        name = old.get(item.name, item.name)
        position = None if name is None else positions.get(name.lower())
        values.append(
            None
            if position is None
            else plain(row[position], then.fields[position].dataType, item.dataType)
        )
    return tuple(values)


def plain(value: Any, then: DataType, today: DataType) -> Any:
    """``value`` with plain equality; structs have the order and the fields of ``today``."""
    if value is None:
        return None
    if isinstance(then, StructType) and isinstance(today, StructType):
        return plain_row(value, then, today)
    if isinstance(then, ArrayType) and isinstance(today, ArrayType):
        return tuple(plain(item, then.elementType, today.elementType) for item in value)
    if isinstance(then, MapType) and isinstance(today, MapType):
        return frozenset(
            (plain(k, then.keyType, today.keyType), plain(v, then.valueType, today.valueType))
            for k, v in value.items()
        )
    if isinstance(value, VariantVal):
        return repr(value.toPython())
    if isinstance(value, float) and math.isnan(value):
        return "NaN"  # Spark, unlike Python, treats NaN as equal to itself
    return value


def _escaped(name: str) -> str:
    return name.replace("`", "``")
