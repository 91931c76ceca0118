"""Applying the changes that wait for an upsert table: which statements, over which of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...core.batches import BatchLimit
from ...core.errors import StatementFailed, StreamMoved
from ...core.model import Stream
from ...core.names import quote
from ...core.outcomes import Outcome
from ...core.upserts.changes import are_few
from ...core.upserts.definition import UpsertTable
from ...core.upserts.diversion import (
    NEEDED,
    Memory,
    divert_text,
    may_divert,
    remaining,
    sound,
)
from ...core.upserts.newer import COMPARISON_NEEDED, newer_text, newest_before
from ...core.upserts.partial import partial_apply_text
from ...core.upserts.pruning import Intervals
from ...core.upserts.texts import apply_text
from ..attempts import Parts
from ..consumption import Consumer
from .pruning import BaseShare, Pruning
from .quarantine import Quarantine

BASE_BYTES = "baseBytes"
BASE_BYTES_READ = "baseBytesRead"
"""What an apply adds to the metrics of its MERGE: the size of the base, and at most how much of it
was read.
"""


class Applying:
    """Applies changes by one MERGE into the base, and by one into the quarantine where some have to
    go there.
    """

    def __init__(self, parts: Parts, quarantine: Quarantine, pruning: Pruning) -> None:
        self._parts = parts
        self._quarantine = quarantine
        self._pruning = pruning

    def apply(self, table: UpsertTable, stream: Stream) -> Outcome:
        """Apply what waits in ``stream``, or finish what a killed call began.

        :raises StatementFailed: a MERGE failed; nothing was applied
        """
        memory = self._quarantine.memory(table)
        span = self._parts.sources.span(stream)
        files = span.tables[0].added_files
        few = are_few(files)
        holds = memory.quarantine is not None and self._quarantine.holds(memory.quarantine)
        if not holds and not may_divert(files):
            share = self._pruning.share(table, self._parts.reader.read(span).rows)
            found = sound(table, quote(table.stream), memory, share.untouched)
            texts = [_merge(table, found, share.untouched, few=few)]
            newest = newest_before(share.files, files)
            if newest is not None and not table.has_partial_changes:
                newer = newer_text(table, found, newest, share.untouched, are_few=few)
                texts.insert(0, newer)
            for text in texts:
                try:
                    return _measured(self._consume(table, text, standing=stream), share)
                except StreamMoved:
                    # What was applied since the look could be newer, or hold others up by now.
                    break
                except StatementFailed as error:
                    if NEEDED in str(error):
                        break
                    if COMPARISON_NEEDED not in str(error):
                        raise
        # Neither text tells what waits, or is in these tables, by now: a killed call is finished by
        # them.
        quarantine, deletes = f"delta.{quote(table.quarantine)}", f"delta.{quote(table.deletes)}"
        divert = divert_text(table, quarantine, Memory(quarantine, deletes))
        whole = self._pruning.whole(table)
        rest = _merge(table, remaining(table, quarantine), None, few=False)
        outcome = self._consume(table, divert, rest)
        return _measured(outcome, whole)

    def _consume(self, table: UpsertTable, *texts: str, standing: Stream | None = None) -> Outcome:
        consumer = Consumer(self._parts, f"apply.{table.stream}", BatchLimit())
        return consumer.consume(texts, standing=standing)


def _merge(table: UpsertTable, changes: str, untouched: Intervals | None, *, few: bool) -> str:
    text = partial_apply_text if table.has_partial_changes else apply_text
    return text(table, changes, untouched, are_few=few)


def _measured(outcome: Outcome, share: BaseShare) -> Outcome:
    """The outcome with what share of the base was read, in the metrics of the last statement."""
    *others, last = outcome.statements
    found: Mapping[str, int] = {
        BASE_BYTES: share.total_bytes,
        BASE_BYTES_READ: share.read_bytes,
    }
    measured = replace(last, metrics={**last.metrics, **found})
    return replace(outcome, statements=(*others, measured))
