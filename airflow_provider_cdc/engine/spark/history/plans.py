"""What a batch of events does to a history target, computed once before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from ...consumption.ports import OpenChangeSets
from ...core.change_sets.read_plan import ReadPlan
from ...core.delta.columns import Column
from ...core.delta.key_pruning import is_untouched
from ...core.errors import CdcError, InvalidRequest
from ...core.history.copy_sql import copy_sql
from ...core.history.events import ACTION, BAD, KIND, REASON, TIE, Action, Kind
from ...core.history.options import OnTie
from ...core.history.plan_sql import Relations, plan_sql
from ...core.model.outcomes import StreamOutcome
from ...core.names import quote
from ...storage.delta.table_snapshots import newest_snapshot
from ...storage.files.stores import Files
from ...storage.sources.source_log import StreamSpan
from ..debezium.decoding import named_values
from ..session.failures import has_ended, raised_text
from ..session.session_settings import may_broadcast
from ..tables.pruning import Pruning, TouchedShare
from ..tables.sql_types import sql_type
from .history_target import HistoryTarget

_BYTES_OF_A_VALUE = 16
_SMALL_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to write, in a view, and how many there are of each :class:`Action`.

    ``is_small``: the rows of the target can be sent to each task. ``share`` is the part of the
    target that they may touch, at the version from which the plan was made. ``memory_version`` is
    -1 without a memory. ``is_anew``: the rows replace those of the target.
    """

    view: str
    counts: Mapping[str, int]
    share: TouchedShare
    memory_version: int
    is_small: bool = False
    is_anew: bool = False

    @property
    def condition(self) -> str | None:
        """The condition of the rows ``t`` of the target that the plan may touch, as SQL."""
        untouched = self.share.untouched
        return None if untouched is None else is_untouched(untouched)

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
    pruning: Pruning
    files: Files

    @contextmanager
    def plan(
        self, target: HistoryTarget, rows: DataFrame, *, is_anew: bool = False
    ) -> Iterator[Plan]:
        """The plan of the events ``rows``. Its view exists until the block ends.

        :param is_anew: plan as if the target had no rows yet

        :raises InvalidRequest: an event has no key or no sequence, or two are tied
        """
        options, shape = target.options, target.shape
        memory_version, memory = -1, None
        if target.has_memory(self.files):
            found = newest_snapshot(target.memory, self.files)
            memory_version = found.version
            memory = f"delta.{quote(target.memory)}" if found.files else None
        given, made = f"cdc_{uuid.uuid4().hex}", f"cdc_{uuid.uuid4().hex}"
        with named_faults(target):
            # The plan reads the events several times, and each time Spark would plan all of them.
            rows.localCheckpoint(eager=True).createOrReplaceTempView(given)
        try:
            share = self._share(target, given, is_anew=is_anew)
            if options.needs_intervals:
                held = f"(SELECT * FROM {target.sql} WHERE false)" if is_anew else None
                known = None if is_anew else memory
                relations = Relations(given, held or _touchable(target, share), known)
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
                is_small = self._is_small(target, counts)
                yield Plan(made, counts, share, memory_version, is_small, is_anew)
            finally:
                self.spark.catalog.dropTempView(made)
        finally:
            self.spark.catalog.dropTempView(given)

    def _is_small(self, target: HistoryTarget, counts: Mapping[str, int]) -> bool:
        """Whether the rows to write can be sent to each task that reads the target."""
        rows = counts.get(Action.WRITE, 0) + counts.get(Action.REMOVE, 0)
        size = rows * len(target.schema) * _BYTES_OF_A_VALUE
        return size <= _SMALL_BYTES and may_broadcast(self.spark)

    def _share(self, target: HistoryTarget, events: str, *, is_anew: bool) -> TouchedShare:
        """The part of the target that events may touch."""
        location, name = target.table.location, target.shape.keys[0]
        if is_anew or (target.shape.has_truncates and self._truncates(events)):
            return self.pruning.whole(location)
        key = Column(name, sql_type(target.schema[name].dataType))
        keys = f"(SELECT {quote(name)} FROM {events} WHERE {REASON} IS NULL)"
        return self.pruning.share(location, key, keys)

    def _truncates(self, events: str) -> bool:
        """Whether an event ends the rows of all keys."""
        found = f"SELECT 1 FROM {events} WHERE {REASON} IS NULL AND {KIND} = '{Kind.TRUNCATE}'"
        return not self.spark.sql(found).isEmpty()


def _touchable(target: HistoryTarget, share: TouchedShare) -> str:
    """The rows of the target that events may touch, as a relation."""
    if share.untouched is None:
        return target.sql
    return f"(SELECT t.* FROM {target.sql} AS t WHERE {is_untouched(share.untouched)})"


@contextmanager
def named_faults(target: HistoryTarget) -> Iterator[None]:
    """Name the events that stopped a job.

    :raises InvalidRequest: an event has no key or no sequence, two are tied, or a message has a
        value that is not one of its type
    """
    try:
        with named_values(target.subject):
            yield
    except CdcError:
        raise
    except Exception as error:  # pyspark has no classes for errors of the JVM
        if not has_ended(error):
            raise
        if bad := raised_text(error, BAD):
            raise InvalidRequest(
                target.subject,
                "cannot take an event, nothing was written",
                cause=bad,
                fix="correct the source, or pass on_null='quarantine': then the other events are"
                " applied",
            ) from None
        if tied := raised_text(error, TIE):
            keys = ", ".join(target.options.keys)
            in_order = target.options.is_in_order
            raise InvalidRequest(
                target.subject,
                "cannot take two events of one key and one sequence, nothing was written",
                cause=f"several have {keys} = {tied}",
                fix="name the columns that identify a row in keys"
                if in_order and target.options.on_tie is OnTie.FAIL
                else "pass on_tie='last' to keep the later one, or on_tie='quarantine'",
            ) from None
        raise
