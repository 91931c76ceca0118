"""The rows of a source as events: what each says about its key, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, StructField, StructType

from ...core.change_feed.feed_options import ChangeType, FeedColumns
from ...core.errors import InvalidRequest
from ...core.history.events import BAD, KIND, ORDER, REASON, SEQUENCE, Kind
from ...core.history.options import HistoryOptions, OnNull
from ...core.history.shape import HistoryShape, sequence_sql
from ...core.model.stream import METADATA_COLUMNS, Stream, StreamMode
from ...core.names import moment_sql, name_key, quote
from ..change_sets.columns import parts_of
from ..session.failures import first_line
from ..tables.sql_types import sql_type
from ..tables.store_assignment import StoreAssignment

_FEED = FeedColumns()
_PARTNER = "_cdc_partner"
STREAM_ORDER = "TIMESTAMP_LTZ"
"""The type of the sequence of events in stream order: the time of their commits."""


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a source, and the stream that they are from, if they are from one.

    :param moment: the time of the newest commit that they are from
    """

    rows: DataFrame
    stream: Stream | None = None
    moment: datetime | None = None

    @property
    def metadata_columns(self) -> tuple[str, ...]:
        """The columns that the stream adds to those of its source."""
        if self.stream is None:
            return ()
        names = METADATA_COLUMNS[self.stream.column_style]
        added: tuple[str, ...] = (names.action, names.is_update, names.row_id)
        if self.stream.mode is StreamMode.FEED:
            added = (*_FEED.names, names.row_id)
        held = set(self.rows.columns)
        return tuple(name for name in added if name in held)

    @property
    def fields(self) -> list[StructField]:
        """The columns of the source."""
        added = set(self.metadata_columns)
        return [field for field in self.rows.schema.fields if field.name not in added]

    @property
    def _row_id(self) -> str:
        assert self.stream is not None
        return METADATA_COLUMNS[self.stream.column_style].row_id

    @property
    def _action(self) -> str | None:
        """The column that says what a row is; ``None``: each row is an insert."""
        if self.stream is None:
            return None
        is_feed = self.stream.mode is StreamMode.FEED
        names = METADATA_COLUMNS[self.stream.column_style]
        found = _FEED.change_type if is_feed else names.action
        # A query of the stream may leave it out.
        return found if found in self.metadata_columns else None

    @property
    def is_old(self) -> str:
        """The condition of the rows that are old values, as SQL."""
        if self._action is None:
            return "false"
        old = f"'DELETE', '{ChangeType.DELETE}', '{ChangeType.PREIMAGE}'"
        return f"{quote(self._action)} IN ({old})"

    @property
    def is_update(self) -> str:
        """The condition of the rows that are part of an update, as SQL."""
        assert self.stream is not None
        if self.stream.mode is StreamMode.FEED:
            both = f"'{ChangeType.PREIMAGE}', '{ChangeType.POSTIMAGE}'"
            return f"{quote(_FEED.change_type)} IN ({both})"
        return quote(METADATA_COLUMNS[self.stream.column_style].is_update)

    @property
    def shows_updates(self) -> bool:
        """Whether the two rows of an update can be found."""
        if self._action is None or self.stream is None:
            return False
        if self.stream.mode not in (StreamMode.STANDARD, StreamMode.FEED):
            return False
        is_update = METADATA_COLUMNS[self.stream.column_style].is_update
        wanted = {*self.row}
        if self.stream.mode is StreamMode.STANDARD:
            wanted.add(is_update)
        return wanted <= set(self.metadata_columns)

    @property
    def row(self) -> list[str]:
        """The columns that identify an updated row among its changes."""
        assert self.stream is not None
        is_feed = self.stream.mode is StreamMode.FEED
        return [self._row_id, *([_FEED.commit_version] if is_feed else [])]

    @property
    def order(self) -> Column:
        """The place of a row in its source: its commit, and its place in the commit."""
        version = number = F.lit(0).cast("bigint")
        held = set(self.metadata_columns)
        if self.stream is not None and self.stream.view is None and self._row_id in held:
            number = place_of(self._row_id)
        if _FEED.commit_version in held:
            version = F.col(quote(_FEED.commit_version))
        return F.struct(version.alias("version"), number.alias("row"))

    @property
    def stream_sequence(self) -> Column:
        """The time of the commit of a row; that of the newest commit if only the net change of
        several commits is known.
        """
        if _FEED.commit_timestamp in set(self.metadata_columns):
            return F.col(quote(_FEED.commit_timestamp))
        assert self.moment is not None
        return F.expr(moment_sql(self.moment))


def sequence_type(source: SourceRows, options: HistoryOptions, subject: str) -> DataType:
    """The type of the sequence of the events of ``source``.

    :raises InvalidRequest: Spark refuses the expression, or values of its type have no order
    """
    if not options.sequence_by:
        found = source.rows.select(source.stream_sequence).schema[0].dataType
    else:
        found = _analysed(source.rows, sequence_sql(options), "sequence_by", subject)
    if any(word in sql_type(found).lower() for word in ("map<", "variant", "array<")):
        raise InvalidRequest(
            subject,
            "cannot have this sequence_by",
            cause=f"values of type {sql_type(found)} have no order",
            fix="name a column with a number, a date, a time or text",
        )
    return found


def _analysed(rows: DataFrame, text: str, argument: str, subject: str) -> DataType:
    try:
        return rows.selectExpr(text).schema[0].dataType
    except AnalysisException as error:
        raise InvalidRequest(
            subject,
            f"cannot use this {argument}",
            cause=first_line(error),
            fix=f"correct {argument}: it is an SQL expression over the columns of the source",
        ) from None


def events(
    spark: SparkSession,
    source: SourceRows,
    options: HistoryOptions,
    shape: HistoryShape,
    schema: StructType,
    subject: str,
) -> DataFrame:
    """The events in the rows of ``source``, with the columns of a target that has ``schema``.

    :raises InvalidRequest: Spark refuses an expression, or the target cannot store a type
    """
    rows = source.rows
    sequence = F.expr(sequence_sql(options)) if options.sequence_by else source.stream_sequence
    for argument, text in (
        ("apply_as_deletes", options.apply_as_deletes),
        ("apply_as_truncates", options.apply_as_truncates),
    ):
        if text is not None:
            _analysed(rows, text, argument, subject)
    kind = F.expr(
        f"CASE WHEN {options.apply_as_truncates or 'false'} THEN '{Kind.TRUNCATE}'"
        f" WHEN {options.apply_as_deletes or source.is_old} THEN '{Kind.DELETE}'"
        f" ELSE '{Kind.UPSERT}' END"
    )
    rows = rows.withColumns({SEQUENCE: sequence, KIND: kind, ORDER: source.order})
    if options.sequence_by and source.shows_updates:
        rows = _without_old_values(source, rows, shape)
    sequence = F.expr(f"CAST({SEQUENCE} AS {shape.sequence_type})").alias(SEQUENCE)
    stored = stored_columns(spark, rows, shape, schema, subject)
    rows = rows.select(*stored, sequence, KIND, ORDER)
    bad = _bad(rows, shape)
    return rows.withColumn(REASON, refusing(bad) if options.on_null is OnNull.FAIL else bad)


def _without_old_values(source: SourceRows, rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """The rows without the old values of updates. If an update gave its row another key, the old
    key is deleted with the sequence of the update.
    """
    is_update, is_old = F.expr(source.is_update), F.expr(source.is_old)
    key = F.struct(*(F.col(quote(name)).alias(name) for name in shape.keys))
    updated = rows.where(is_update)
    new = F.struct(key.alias("key"), F.col(SEQUENCE).alias("sequence"))
    by_row = ", ".join(map(quote, source.row))
    partner = F.expr(f"max({_PARTNER}) OVER (PARTITION BY {by_row})")
    paired = updated.withColumn(_PARTNER, F.when(~is_old, new)).withColumn(_PARTNER, partner)
    moved = paired.where(is_old & ~key.eqNullSafe(F.col(f"{_PARTNER}.key"))).withColumns(
        {SEQUENCE: F.col(f"{_PARTNER}.sequence"), KIND: F.lit(Kind.DELETE.value)}
    )
    return rows.where(~(is_update & is_old)).unionByName(moved.drop(_PARTNER))


def stored_columns(
    spark: SparkSession, rows: DataFrame, shape: HistoryShape, schema: StructType, subject: str
) -> list[Column]:
    """The columns of ``rows`` with the names and the types of the target.

    :raises InvalidRequest: the target cannot store a type
    """
    assignment = StoreAssignment(
        spark,
        subject,
        "cannot hold the columns of its source",
        "leave the column out with except_column_list, or convert it by a query",
    )
    given = {name_key(field.name): field for field in rows.schema.fields}
    wanted = {name_key(field.name): field for field in schema.fields}
    columns = []
    for name in shape.data:
        target = wanted[name_key(name)]
        found = given.get(name_key(name))
        if found is None:
            # The source dropped it.
            columns.append(F.lit(None).cast(target.dataType).alias(name))
        else:
            value = F.col(quote(found.name))
            columns.append(assignment.column(value, found.dataType, target))
    return columns


def bad_key(shape: HistoryShape) -> Column:
    """Why a row has no key; NULL if it has one."""
    found = F.lit(None).cast("string")
    for name in reversed(shape.keys):
        why = F.lit(f"its key column {name} is NULL")
        found = F.when(F.col(quote(name)).isNull(), why).otherwise(found)
    return found


def refusing(bad: Column) -> Column:
    """``bad``, but the job ends if it is not NULL."""
    stop = F.raise_error(F.concat(F.lit(BAD), bad)).cast("string")
    return F.when(bad.isNotNull(), stop)


def _bad(rows: DataFrame, shape: HistoryShape) -> Column:
    """Why an event cannot be applied; NULL if it can."""
    kind = rows.schema[SEQUENCE].dataType
    nulls = F.col(SEQUENCE).isNull()
    parts = {"": kind}
    if isinstance(kind, StructType):
        parts = {f".{quote(field.name)}": field.dataType for field in kind.fields}
    for name, part in parts.items():
        value = F.col(f"{SEQUENCE}{name}")
        nulls = nulls | value.isNull()
        if any(isinstance(each, (FloatType, DoubleType)) for each in parts_of(part)):
            nulls = nulls | F.isnan(value)
    is_row = F.col(KIND) != Kind.TRUNCATE.value
    return F.when(nulls, F.lit("its sequence is NULL")).when(is_row, bad_key(shape))


def place_of(row_id: str) -> Column:
    """The place of a row of a table, by its row id as streams show it."""
    number = F.conv(F.col(quote(row_id)), 16, 10).cast("decimal(20,0)")
    return (number % F.lit(2**62)).cast("bigint")
