"""The change sets of one consumption, as temporary views that its statements read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from ...consumption.stream_outcomes import stream_outcome
from ...core.change_feed.feed_options import ChangeType, FeedColumns
from ...core.change_sets.read_plan import ReadPlan
from ...core.model.outcomes import StreamOutcome
from ...core.model.stream import METADATA_COLUMNS, Stream, StreamMode
from ...core.names import quote
from ...storage.files.scratch import Scratch
from ...storage.sources.source_log import StreamSpan
from ..reading.stream_reader import StreamChanges
from ..session.session_settings import any_version


class ReadsChanges(Protocol):
    """A reader that returns the change set of a stream."""

    def read(self, span: StreamSpan) -> StreamChanges:
        """The change set of ``span``, not yet computed."""


@dataclass(frozen=True, slots=True)
class StreamViews:
    """The views by stream name, and the change sets that they show."""

    spark: SparkSession
    names: Mapping[str, str]
    spans: Sequence[StreamSpan]
    change_sets: Sequence[StreamChanges]

    @property
    def plans(self) -> Sequence[tuple[ReadPlan, ...]]:
        """How each change set is read, for each base table."""
        return [change_set.plans for change_set in self.change_sets]

    def outcomes(self) -> tuple[StreamOutcome, ...]:
        """The counted changes of each stream. This call computes and keeps the change sets, except
        those whose number of rows the log shows.

        :raises FilesChanged: a file was overwritten or removed during the read
        :raises FileUnreadable: a file cannot be read
        """
        return tuple(map(self._outcome, self.spans, self.change_sets))

    def settle(self) -> None:
        """Compute and keep the rows that a second read might not return again.

        :raises FilesChanged: a file was overwritten or removed during the read
        :raises FileUnreadable: a file cannot be read
        """
        for span, change_set in zip(self.spans, self.change_sets, strict=True):
            if not change_set.is_repeatable:
                self._outcome(span, change_set)

    def _outcome(self, span: StreamSpan, change_set: StreamChanges) -> StreamOutcome:
        with change_set.reading():
            return stream_outcome(span, change_set.plans, self._counted(span, change_set))

    def _counted(self, span: StreamSpan, change_set: StreamChanges) -> dict[str, int]:
        if change_set.row_count is not None:
            return {"inserted": change_set.row_count, "updated": 0, "deleted": 0}
        # Read by name: over Spark Connect the frame itself would be analysed again.
        rows = self.spark.table(self.names[span.stream.name])
        # Count in one row: grouping would shuffle even what a single task computes.
        counts = [f"count_if({is_one}) AS {name}" for name, is_one in _kinds(span.stream).items()]
        (found,) = rows.selectExpr(*counts).collect()
        return cast(dict[str, int], found.asDict())


@dataclass(frozen=True, slots=True)
class SparkChangeSets:
    """A :class:`ChangeSetViews` whose views are temporary views of a session."""

    spark: SparkSession
    reader: ReadsChanges
    scratch: Scratch

    @contextmanager
    def open(
        self, spans: Sequence[StreamSpan], *, are_read_once: bool = False
    ) -> Iterator[StreamViews]:
        """Temporary views over the change sets of ``spans``, removed afterwards with their folders.

        Snowflake, repeatable read: every statement sees the same records. A change set is computed
        once, even if several statements read it.

        :param are_read_once: only one statement reads them; then the rows of a change set with
            ``as_they_lie`` are not kept
        """
        made: list[str] = []
        kept: list[DataFrame] = []
        roots: list[str] = []
        names: dict[str, str] = {}
        change_sets = []
        try:
            for span in spans:
                change_set = self.reader.read(span)
                roots.extend(change_set.scratch)
                change_sets.append(change_set)
                kept.extend(
                    frame.persist(StorageLevel.MEMORY_AND_DISK) for frame in change_set.reused
                )
                rows = change_set.rows
                view = f"cdc_{uuid.uuid4().hex}"
                # Over Spark Connect, Spark looks up the versions here.
                with any_version(self.spark):
                    if not (change_set.as_they_lie and are_read_once):
                        rows = _kept(change_set)
                        kept.append(rows)
                    rows.createOrReplaceTempView(view)
                made.append(view)
                names[span.stream.name] = view
            yield StreamViews(self.spark, names, spans, change_sets)
        finally:
            for view in made:
                self.spark.catalog.dropTempView(view)
            for rows in kept:
                rows.unpersist()
            for root in roots:
                self.scratch.remove(root)


def _kinds(stream: Stream) -> dict[str, str]:
    """The conditions of the rows that are inserts, updates and deletes; each update counts once."""
    if stream.mode is StreamMode.FEED:
        column = quote(FeedColumns().change_type)
        kinds = (ChangeType.INSERT, ChangeType.POSTIMAGE, ChangeType.DELETE)
        inserted, updated, deleted = (f"{column} = '{kind}'" for kind in kinds)
    else:
        names = METADATA_COLUMNS[stream.column_style]
        action, is_update = quote(names.action), quote(names.is_update)
        inserted = f"{action} = 'INSERT' AND NOT {is_update}"
        updated = f"{action} = 'INSERT' AND {is_update}"
        deleted = f"{action} = 'DELETE' AND NOT {is_update}"
    return {"inserted": inserted, "updated": updated, "deleted": deleted}


def _kept(change_set: StreamChanges) -> DataFrame:
    """The rows, computed once. If an executor is lost with its share of them, Spark reads that
    share again. For rows that are not repeatable, the read must fail instead.
    """
    if change_set.is_repeatable:
        return change_set.rows.persist(StorageLevel.MEMORY_AND_DISK)
    return change_set.rows.localCheckpoint(eager=False)
