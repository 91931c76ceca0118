"""The change sets of one consumption, as temporary views that its statements read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from ..core.model import METADATA_COLUMNS, StreamOutcome
from ..core.names import quote
from ..storage.scratch import Scratch
from ..storage.source_log import SourceRange
from .change_sets.reader import ChangeSet, ChangeSetReader


@dataclass(frozen=True, slots=True)
class StreamViews:
    """The views by stream name, and what they show."""

    spark: SparkSession
    names: Mapping[str, str]
    spans: Sequence[SourceRange]
    change_sets: Sequence[ChangeSet]

    def outcomes(self) -> tuple[StreamOutcome, ...]:
        """What each stream gives, counted; this computes the change sets and keeps them."""
        return tuple(
            StreamOutcome(
                stream_id=span.stream.stream_id,
                name=span.stream.name,
                after_version=span.start.version,
                through_version=span.end.version,
                strategy=change_set.plan.strategy.value,
                # By its name: over Spark Connect the frame itself would be analysed again.
                rows=_counted(self.spark.table(self.names[span.stream.name]), span),
            )
            for span, change_set in zip(self.spans, self.change_sets, strict=True)
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
        yield StreamViews(spark, names, spans, change_sets)
    finally:
        for view in made:
            spark.catalog.dropTempView(view)
        for rows in kept:
            rows.unpersist()
        for root in roots:
            scratch.remove(root)


def _counted(rows: DataFrame, span: SourceRange) -> dict[str, int]:
    names = METADATA_COLUMNS[span.stream.column_style]
    action, is_update = quote(names.action), quote(names.is_update)
    # One row for everything: grouping would shuffle even what a single task computes.
    counts = rows.selectExpr(
        f"count_if({action} = 'INSERT' AND NOT {is_update}) AS inserted",
        f"count_if({action} = 'INSERT' AND {is_update}) AS updated",
        f"count_if({action} = 'DELETE' AND NOT {is_update}) AS deleted",
    )
    (found,) = counts.collect()
    return cast(dict[str, int], found.asDict())
