"""The change sets of one consumption, as temporary views that its statements read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..core.model import METADATA_COLUMNS, StreamOutcome
from ..storage.scratch import Scratch
from ..storage.source_log import SourceRange
from .change_sets.reader import ChangeSet, ChangeSetReader


@dataclass(frozen=True, slots=True)
class StreamViews:
    """The views by stream name, and what they show."""

    names: Mapping[str, str]
    spans: Sequence[SourceRange]
    change_sets: Sequence[ChangeSet]
    rows: Sequence[DataFrame]

    def outcomes(self) -> tuple[StreamOutcome, ...]:
        """What each stream gives, counted; this computes the change sets and keeps them."""
        return tuple(
            StreamOutcome(
                stream_id=span.stream.stream_id,
                name=span.stream.name,
                after_version=span.start.version,
                through_version=span.end.version,
                strategy=change_set.plan.strategy.value,
                rows=_counted(rows, span),
            )
            for span, change_set, rows in zip(self.spans, self.change_sets, self.rows, strict=True)
        )


@contextmanager
def stream_views(
    spark: SparkSession, reader: ChangeSetReader, scratch: Scratch, spans: Sequence[SourceRange]
) -> Iterator[StreamViews]:
    """Temporary views over the change sets of ``spans``, gone with their crafted tables afterwards.

    Every statement sees the same records (seed 000, repeatable read), and a change set is computed
    once however many statements read it.
    """
    made: list[str] = []
    kept: list[DataFrame] = []
    roots: list[str] = []
    names: dict[str, str] = {}
    change_sets = []
    try:
        for span in spans:
            change_set = reader.read(span)
            roots.extend(change_set.scratch)
            change_sets.append(change_set)
            rows = change_set.rows.persist(StorageLevel.MEMORY_AND_DISK)
            kept.append(rows)
            view = f"cdc_{uuid.uuid4().hex}"
            rows.createOrReplaceTempView(view)
            made.append(view)
            names[span.stream.name] = view
        yield StreamViews(names, spans, change_sets, kept)
    finally:
        for view in made:
            spark.catalog.dropTempView(view)
        for rows in kept:
            rows.unpersist()
        for root in roots:
            scratch.remove(root)


def _counted(rows: DataFrame, span: SourceRange) -> dict[str, int]:
    names = METADATA_COLUMNS[span.stream.column_style]
    action, is_update = F.col(f"`{names.action}`"), F.col(f"`{names.is_update}`")
    counts = rows.groupBy(action.alias("action"), is_update.alias("is_update")).count().collect()
    found = {(row["action"], row["is_update"]): row["count"] for row in counts}
    return {
        "inserted": found.get(("INSERT", False), 0),
        "updated": found.get(("INSERT", True), 0),
        "deleted": found.get(("DELETE", False), 0),
    }
