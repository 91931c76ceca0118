"""What a batch of events does to a history target, computed once before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from ...consumption.ports import OpenChangeSets
from ...core.change_sets.read_plan import ReadPlan
from ...core.errors import CdcError, InvalidRequest
from ...core.history.copy_sql import copy_sql
from ...core.history.events import ACTION, BAD, TIE, Action
from ...core.history.options import OnTie
from ...core.history.plan_sql import Relations, plan_sql
from ...core.model.outcomes import StreamOutcome
from ...core.names import quote
from ...storage.delta.table_snapshots import newest_snapshot
from ...storage.files.stores import Files
from ...storage.sources.source_log import StreamSpan
from ..session.failures import has_ended, reason
from .target_tables import HistoryTarget


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to write, in a view, and how many there are of each :class:`Action`.

    The versions are those that the plan was made from. ``memory_version`` is -1 without a memory.
    """

    view: str
    counts: Mapping[str, int]
    target_version: int
    memory_version: int
    is_first: bool

    @property
    def has_memory_rows(self) -> bool:
        """Whether it writes to the memory."""
        return any(self.counts.get(each, 0) for each in (Action.REMEMBER, Action.QUARANTINE))


@dataclass(frozen=True, slots=True)
class PlannedViews:
    """The change sets of a consumption, whose only stream shows a plan under its name."""

    read: OpenChangeSets
    view: str

    @property
    def names(self) -> Mapping[str, str]:
        """The view of the plan by the stream's name."""
        return dict.fromkeys(self.read.names, self.view)

    @property
    def spans(self) -> Sequence[StreamSpan]:
        """What each change set covers."""
        return self.read.spans

    @property
    def plans(self) -> Sequence[Sequence[ReadPlan]]:
        """How each change set is read."""
        return self.read.plans

    def outcomes(self) -> tuple[StreamOutcome, ...]:
        """The counted changes of each stream."""
        return self.read.outcomes()


@dataclass(frozen=True, slots=True)
class Planning:
    """Makes the plans of one session."""

    spark: SparkSession
    files: Files

    @contextmanager
    def plan(self, target: HistoryTarget, rows: DataFrame) -> Iterator[Plan]:
        """The plan of the events ``rows``. Its view exists until the block ends.

        :raises InvalidRequest: an event has no key or no sequence, or two are tied
        """
        options, shape = target.options, target.shape
        base = newest_snapshot(target.table.location, self.files)
        memory_version, memory = -1, None
        if self.files.exists(f"{target.memory}/_delta_log"):
            found = newest_snapshot(target.memory, self.files)
            memory_version = found.version
            memory = f"delta.{quote(target.memory)}" if found.files else None
        given, made = f"cdc_{uuid.uuid4().hex}", f"cdc_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(given)
        try:
            if options.needs_intervals:
                relations = Relations(given, target.sql, memory)
                text = plan_sql(shape, relations, options.on_tie)
            else:
                text = copy_sql(shape, given, options.on_tie)
            with named_faults(target):
                # The statements read it several times, and each time Spark would plan all of it.
                planned = self.spark.sql(text).localCheckpoint(eager=True)
                counted = planned.groupBy(ACTION).count().collect()
            planned.createOrReplaceTempView(made)
            try:
                counts = {row[0]: row[1] for row in counted}
                yield Plan(made, counts, base.version, memory_version, not base.files)
            finally:
                self.spark.catalog.dropTempView(made)
        finally:
            self.spark.catalog.dropTempView(given)


@contextmanager
def named_faults(target: HistoryTarget) -> Iterator[None]:
    """Name the events that stopped a job.

    :raises InvalidRequest: an event has no key or no sequence, or two are tied
    """
    try:
        yield
    except CdcError:
        raise
    except Exception as error:  # pyspark has no classes for errors of the JVM
        cause = reason(error)
        if not has_ended(error):
            raise
        if BAD in cause:
            raise InvalidRequest(
                target.subject,
                "cannot take an event, nothing was written",
                cause=_after(cause, BAD),
                fix="correct the source, or pass on_null='quarantine': then the other events are"
                " applied",
            ) from None
        if TIE in cause:
            keys = ", ".join(target.options.keys)
            in_order = target.options.is_in_order
            raise InvalidRequest(
                target.subject,
                "cannot take two events of one key and one sequence, nothing was written",
                cause=f"several have {keys} = {_after(cause, TIE)}",
                fix="name the columns that identify a row in keys"
                if in_order and target.options.on_tie is OnTie.FAIL
                else "pass on_tie='last' to keep the later one, or on_tie='quarantine'",
            ) from None
        raise


def _after(cause: str, mark: str) -> str:
    return cause[cause.index(mark) + len(mark) :].partition("\n")[0].split("' SQLSTATE")[0]
