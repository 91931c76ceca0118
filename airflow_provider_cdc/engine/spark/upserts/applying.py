"""Apply the waiting changes of an upsert table: the statements, and the files they touch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import SparkSession

from ...consumption.attempts import ConsumptionServices
from ...consumption.consumer import Consumer, ReadBasis
from ...core.consumption.batches import BatchLimit
from ...core.errors import StatementFailed, StreamConflict, StreamMoved
from ...core.model.consumption import Consumption
from ...core.model.outcomes import Outcome
from ...core.model.stream import Stream
from ...core.names import quote
from ...core.upserts.change_rows import are_few, write_begins
from ...core.upserts.definition import UpsertTable
from ...core.upserts.diversion import (
    NEEDED,
    Memory,
    applicable_changes,
    divert_text,
    may_divert,
    remaining,
)
from ...core.upserts.job_records import HELD_CHANGES, LATE_CHANGES
from ...core.upserts.merge_sql import apply_text
from ...core.upserts.newer_changes import are_newer, newer_text
from ...core.upserts.partial_changes import partial_apply_text
from ...storage.files.best_effort import log_failures
from ...storage.sources.source_log import StreamSpan
from ..session.session_settings import may_broadcast
from ..tables.pruning import BASE_BYTES, BASE_BYTES_READ, ChangeFiles, Pruning, TouchedShare
from .quarantine import Quarantine
from .upsert_tables import UpsertTables


class Applying:
    """Applies changes by one MERGE into the base. If some changes must go into quarantine, another
    MERGE moves them there.
    """

    def __init__(
        self,
        spark: SparkSession,
        parts: ConsumptionServices,
        tables: UpsertTables,
        quarantine: Quarantine,
        pruning: Pruning,
    ) -> None:
        self._spark = spark
        self._parts = parts
        self._tables = tables
        self._quarantine = quarantine
        self._pruning = pruning

    def apply(self, table: UpsertTable, stream: Stream) -> Outcome:
        """Apply the changes that wait in ``stream``, or finish what a killed call began.

        :raises StatementFailed: a MERGE failed; nothing was applied
        :raises StreamConflict: the table was altered after it was looked up; nothing was applied
        """
        memory = self._quarantine.memory(table)
        holds = memory.quarantine is not None and self._quarantine.holds(memory.quarantine)
        span = self._parts.sources.span(stream)
        begun = stream.consumption
        # If two statements began the work, two finish it, even if the quarantine changed since.
        is_divided = begun is not None and len(begun.statements) > 1
        if begun is not None and is_divided and self._was_corrected(begun):
            # The changes that the second one applies depend on the quarantine after the first one.
            with suppress(StreamConflict):  # Another applier already ended it.
                keep = [begun.statements[0].target]
                self._parts.resolution.abort(begun, begun.consumer, keep)
        if not is_divided and not holds and not may_divert(span.tables[0].added_files):
            found = self._at_once(table, span, memory)
            if found is not None:
                return found
        # Neither text depends on the changes that wait now, or on the rows of these tables now. So
        # the same texts finish a killed call.
        quarantine, deletes = f"delta.{quote(table.quarantine)}", f"delta.{quote(table.deletes)}"
        divert = divert_text(table, quarantine, Memory(quarantine, deletes))
        whole = self._pruning.whole(table.location)
        rest = _comparing(table)(table, remaining(table, quarantine))
        return self._measured(table, self._consumer(table).consume([divert, rest]), whole)

    def _at_once(self, table: UpsertTable, span: StreamSpan, memory: Memory) -> Outcome | None:
        """Apply ``span`` by one statement, if none of its changes must go into quarantine.

        ``None``: some must go there, or another applier was first.
        """
        consumer, (waiting,) = self._consumer(table), span.tables
        files, begins = waiting.added_files, write_begins(waiting.commits)
        with consumer.opened(span) as views:
            waiting_rows = quote(views.names[table.stream])
            of = ChangeFiles(table.changes, files)
            share = self._pruning.share(table.location, table.first_key, waiting_rows, of)
            changes = applicable_changes(table, quote(table.stream), memory, begins)
            is_newer = not table.has_partial_changes and are_newer(files, share.files)
            text = newer_text if is_newer else _comparing(table)
            few = are_few(table, files) and may_broadcast(self._spark)
            merge = text(table, changes, share.untouched, are_few=few)
            try:
                outcome = consumer.consume([merge], basis=ReadBasis(views, (share.version,)))
            except StreamMoved:
                # A change that was applied in the meantime may be newer, or may block others.
                return None
            except StatementFailed as error:
                if NEEDED not in str(error):
                    raise
                return None
        return self._measured(table, outcome, share)

    def _measured(self, table: UpsertTable, outcome: Outcome, share: TouchedShare) -> Outcome:
        """The outcome, with more metrics of its last statement: the share of the base that was
        read, and the numbers of changes in quarantine now.
        """
        found = {BASE_BYTES: share.total_bytes, BASE_BYTES_READ: share.read_bytes}
        # Everything is applied and committed now, so a failure here is only logged.
        with log_failures(f"counting the changes in quarantine of {table.name}", logging.WARNING):
            quarantined = self._quarantine.counted(table)
            found |= {HELD_CHANGES: quarantined.held, LATE_CHANGES: quarantined.late}
        *others, last = outcome.statements
        measured = replace(last, metrics={**last.metrics, **found})
        return replace(outcome, statements=(*others, measured))

    def _was_corrected(self, begun: Consumption) -> bool:
        """Whether the quarantine was changed after the first statement of ``begun``, and before all
        its statements were applied.
        """
        log, first = self._parts.targets.log, begun.statements[0]
        applied = log.state(begun, first).applied_version
        is_whole = all(state.applied_version is not None for state in log.states(begun))
        if applied is None or is_whole:
            return False
        return log.moved_on(begun, first, first_version=applied) is not None

    def _consumer(self, table: UpsertTable) -> Consumer:
        return Consumer(
            self._parts,
            f"apply.{table.stream}",
            BatchLimit(),
            # A change may have a value in a column that the statements do not contain.
            confirm=lambda: self._tables.confirm(table),
        )


def _comparing(table: UpsertTable) -> Callable[..., str]:
    """The function that builds the MERGE that compares changes with the rows of ``table``."""
    return partial_apply_text if table.has_partial_changes else apply_text
