"""The rows of a source, and what they show of its changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NullType, StructField

from ...core.change_feed.feed_options import ChangeType, FeedColumns
from ...core.debezium.envelope import CHANGE, FAULT, POSITION, Op
from ...core.errors import InvalidRequest
from ...core.history.events import Kind
from ...core.history.options import HistoryOptions
from ...core.history.shape import sequence_sql
from ...core.model.stream import METADATA_COLUMNS, Stream, StreamMode
from ...core.names import moment_sql, quote
from ..session.failures import first_line
from ..tables.sql_types import sql_type

_FEED = FeedColumns()
STREAM_ORDER = "TIMESTAMP_LTZ"
"""The type of the sequence of events in stream order: the time of their commits."""


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a source, and the stream that they are from, if they are from one.

    :param moment: the time of the newest commit that they are from
    :param is_decoded: whether they are messages that were decoded: then they say themselves what
        happened, and in which order
    """

    rows: DataFrame
    stream: Stream | None = None
    moment: datetime | None = None
    is_decoded: bool = False

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
        added = {*self.metadata_columns, *((CHANGE, POSITION, FAULT) if self.is_decoded else ())}
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
        if self._action is None or self.stream is None or self.is_decoded:
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

    def sequence(self, options: HistoryOptions) -> Column:
        """What orders the events of a key."""
        if self.is_decoded:
            return F.col(POSITION)
        return F.expr(sequence_sql(options)) if options.sequence_by else self._commit_time

    def kind(self, options: HistoryOptions) -> Column:
        """What an event says, as :class:`Kind`."""
        truncates, deletes = options.apply_as_truncates, options.apply_as_deletes or self.is_old
        if self.is_decoded:
            truncates, deletes = (f"{CHANGE} = '{op}'" for op in (Op.TRUNCATE, Op.DELETE))
        return F.expr(
            f"CASE WHEN {truncates or 'false'} THEN '{Kind.TRUNCATE}'"
            f" WHEN {deletes} THEN '{Kind.DELETE}' ELSE '{Kind.UPSERT}' END"
        )

    @property
    def _commit_time(self) -> Column:
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
    if options.sequence_by and not source.is_decoded:
        check_analysed(source.rows, sequence_sql(options), "sequence_by", subject)
    found = source.rows.select(source.sequence(options)).schema[0].dataType
    if isinstance(found, NullType):
        raise InvalidRequest(
            subject,
            "cannot be created yet",
            cause="the source holds no message of Debezium that shows the order of changes",
            fix="apply again when the source holds the first message of a row",
        )
    if any(word in sql_type(found).lower() for word in ("map<", "variant", "array<")):
        raise InvalidRequest(
            subject,
            "cannot have this sequence_by",
            cause=f"values of type {sql_type(found)} have no order",
            fix="name a column with a number, a date, a time or text",
        )
    return found


def check_analysed(rows: DataFrame, text: str, argument: str, subject: str) -> None:
    """Refuse an SQL expression of a caller that Spark refuses.

    :raises InvalidRequest: Spark refuses it
    """
    try:
        rows.selectExpr(text).schema  # noqa: B018 - Spark checks the expression here
    except AnalysisException as error:
        raise InvalidRequest(
            subject,
            f"cannot use this {argument}",
            cause=first_line(error),
            fix=f"correct {argument}: it is an SQL expression over the columns of the source",
        ) from None


def place_of(row_id: str) -> Column:
    """The place of a row of a table, by its row id as streams show it."""
    number = F.conv(F.col(quote(row_id)), 16, 10).cast("decimal(20,0)")
    return (number % F.lit(2**62)).cast("bigint")
