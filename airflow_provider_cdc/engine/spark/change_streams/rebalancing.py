"""Splits and merges partitions by what an advance captured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.change_streams.captures import Capture
from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.load_policy import loads_of, middle_of, rebalanced
from ...storage.state.change_streams import ChangeStreams
from .capture_files import CaptureFiles


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """Keeps the partitions of the change streams in one state folder at their wanted size."""

    streams: ChangeStreams
    files: CaptureFiles

    def rebalance(self, stream: ChangeStream, begin: int, now: int) -> ChangeStream:
        """Split and merge partitions of a change stream that has a wanted size for them.

        :param stream: its state after an advance
        :param begin: the first stamp that the advance captured
        :param now: the stamp of this moment
        """
        target, layout = stream.settings.target_rows, stream.layout
        if target is None:
            return stream
        captures = self.files.captures.between(stream, begin, stream.captured)
        found = rebalanced(layout, loads_of(layout, captures), target, begin)
        rows = self._rows(stream, captures) if found.splits else {}
        middles = {each: middle_of(each, rows) for each in found.splits}

        def changed(known: ChangeStream) -> ChangeStream:
            if known.steps != stream.steps:
                # Somebody else split or merged partitions; the next advance looks again.
                return known
            steps, at = known.layout, known.next_step_at(now)
            for partition, middle in middles.items():
                steps, at = steps.split(partition, middle, at), at + 1
            for pair in found.merges:
                steps, at = steps.merge(pair, at), at + 1
            return known if steps == known.layout else known.with_layout(steps)

        return self.streams.update(stream.name, changed)

    def _rows(self, stream: ChangeStream, captures: Sequence[Capture]) -> Mapping[int, int]:
        """How many rows each bucket has."""
        counted = self.files.all_rows(stream, captures).groupBy("bucket").count()
        return {row.bucket: row["count"] for row in counted.collect()}
