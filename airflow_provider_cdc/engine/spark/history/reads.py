"""Reads of history targets: what is current, what was valid at a moment, what was known then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...core.arguments.points import Timestamp, Version
from ...core.errors import InvalidRange, InvalidRequest
from ...core.names import TableName, quote, text_value
from ...core.shown_values import shown
from ...storage.delta.commit_times import CommitTimes
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ..session.session_settings import any_version
from ..tables.sql_types import sql_type
from .history_target import HistoryTarget
from .target_tables import HistoryTables

Moment = int | float | str | Decimal | date | datetime
"""A value of a sequence."""


@dataclass(frozen=True, slots=True)
class HistoryReads:
    """Reads the history targets of one session."""

    spark: SparkSession
    tables: HistoryTables
    files: Files

    def read(
        self,
        name: TableName,
        at: Moment | Sequence[Moment] | None,
        known_at: Version | Timestamp | None,
    ) -> DataFrame:
        """The rows of a target at a moment of its source, as known at a version of the target."""
        target = self.tables.get(name)
        reader = self.spark.read.format("delta")
        if known_at is not None:
            reader = reader.option("versionAsOf", self._version(target, known_at))
        # Over Spark Connect, Spark looks up the version when the rows are read.
        with any_version(self.spark):
            rows = reader.load(target.table.location)
        if at is None:
            return rows.where(target.shape.is_current)
        return rows.where(self._valid_at(target, at))

    def _valid_at(self, target: HistoryTarget, at: Moment | Sequence[Moment]) -> str:
        shape = target.shape
        if shape.start is None or shape.end is None:
            raise InvalidRequest(
                target.subject,
                "cannot be read at a moment",
                cause="it keeps only the newest row of each key (scd_type=1)",
                fix="read it without at, or keep its history with scd_type=2",
            )
        moment = self._moment(target, at)
        start, end = quote(shape.start), quote(shape.end)
        found = f"{start} <= {moment} AND ({end} <=> {shape.open_end} OR {end} > {moment})"
        return found if shape.deleted is None else f"{found} AND NOT {quote(shape.deleted)}"

    def _moment(self, target: HistoryTarget, at: Moment | Sequence[Moment]) -> str:
        """A value of the sequence as SQL."""
        assert target.shape.start is not None
        kind = target.schema[target.shape.start].dataType
        several = [at] if isinstance(at, Moment) else list(at)
        fields = kind.fields if isinstance(kind, StructType) else None
        if len(several) != (1 if fields is None else len(fields)):
            raise InvalidRequest(
                target.subject,
                "cannot be read at this moment",
                cause=f"its sequence has the type {target.shape.sequence_type}, found {shown(at)}",
                fix="pass a value for each of its parts, in their order",
            )
        kinds = [kind] if fields is None else [field.dataType for field in fields]
        texts = [_text(value) for value in several]
        is_known = all(text is not None for text in texts)
        casts = [
            f"CAST({text_value(text or '')} AS {sql_type(each)})"
            for text, each in zip(texts, kinds, strict=True)
        ]
        tested = " OR ".join(f"TRY_{cast} IS NULL" for cast in casts)
        found = self.spark.sql(f"SELECT {tested}").first() if is_known else None
        if found is None or found[0]:
            raise InvalidRequest(
                target.subject,
                "cannot be read at this moment",
                cause=f"expected a value of {target.shape.sequence_type}, found {shown(at)}",
                fix=f"pass a value such as those of {target.shape.start}; a datetime needs a time"
                " zone",
            )
        if fields is None:
            return casts[0]
        names = (quote(field.name) for field in fields)
        pairs = (f"{cast} AS {name}" for cast, name in zip(casts, names, strict=True))
        return f"struct({', '.join(pairs)})"

    def _version(self, target: HistoryTarget, known_at: Version | Timestamp) -> int:
        log = DeltaLog(target.table.location, self.files)
        if isinstance(known_at, Version):
            version: int | None = known_at.number
        else:
            version = CommitTimes(log).newest(known_at.moment, is_inclusive=True)
        newest = log.latest_version()
        if version is None or not 0 <= version <= newest:
            raise InvalidRange(
                target.subject,
                "did not exist then, or its history begins later",
                cause=f"expected a version from 0 to {newest}, found {known_at!r}",
                fix="name a later point",
            )
        return version


def _text(value: Moment) -> str | None:
    """A value as Spark casts it from text; ``None``: its meaning depends on the session."""
    if isinstance(value, datetime):
        return None if value.tzinfo is None else value.isoformat()
    return str(value)
