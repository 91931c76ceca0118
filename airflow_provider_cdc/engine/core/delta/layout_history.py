"""The layouts that a table had in a range, and which layout each was made from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ..model.sources import Offset
from .log_actions import Commit
from .table_schema import Layout

_RESTORE = "RESTORE"


@dataclass(frozen=True, slots=True)
class LayoutHistory:
    """The ``layouts`` that were in force one after the other, the one at the offset first.

    ``origins`` holds, for each layout, the index of the layout whose columns and column ids it took
    over. That is the layout before it, or the one that a RESTORE brought back. The first has its
    own index.
    """

    layouts: tuple[Layout, ...]
    origins: tuple[int, ...]

    def steps(self, place: int = 0) -> tuple[Layout, ...]:
        """The layouts that lead from the one at ``place`` to the last one.

        Of two neighbours, one was made from the other. What a RESTORE took back is left out.
        """
        back, forth = list(self._line(place)), list(self._line(len(self.layouts) - 1))
        shared = max(set(back) & set(forth))
        down = [*takewhile(lambda each: each != shared, back), shared]
        up = takewhile(lambda each: each != shared, forth)
        return tuple(self.layouts[each] for each in (*down, *reversed(list(up))))

    def _line(self, place: int) -> Iterator[int]:
        """``place``, and the index of each layout that it goes back to, down to the first."""
        while place:
            yield place
            place = self.origins[place]
        yield place


def layout_history(start: Offset, commits: Sequence[Commit]) -> LayoutHistory:
    """The layouts from ``start`` on through ``commits``, which follow it."""
    layouts, origins = [Layout.of(start.metadata)], [0]
    since = [start.version]
    for commit in commits:
        if commit.metadata is None:
            continue
        layout = Layout.of(commit.metadata)
        origin = len(layouts) - 1
        if commit.operation == _RESTORE:
            origin = _restored(commit, layout, layouts, since)
        layouts.append(layout)
        origins.append(origin)
        since.append(commit.version)
    return LayoutHistory(tuple(layouts), tuple(origins))


def keeps_fields(start: Offset, commits: Sequence[Commit]) -> bool:
    """Whether the fields after each of ``commits`` are those of ``start``.

    Other parts may change.
    """
    metadata = [commit.metadata for commit in commits if commit.metadata is not None]
    if not metadata:
        return True
    fields = Layout.of(start.metadata).fields
    return all(Layout.of(each).fields == fields for each in metadata)


def _restored(
    commit: Commit, layout: Layout, layouts: Sequence[Layout], since: Sequence[int]
) -> int:
    """The index of the layout that a RESTORE brought back.

    If the RESTORE went back to a version before the range, that is the first layout.

    :param since: the version from which on each of ``layouts`` was in force
    """
    version = commit.operation_parameters.get("version")
    if version is not None:
        return max(bisect_right(since, int(version)) - 1, 0)
    # This is a RESTORE to a timestamp. Only Delta's rules for clocks map a timestamp to a version.
    alike = (
        place
        for place, known in enumerate(layouts)
        if (known.fields, known.mapping_mode) == (layout.fields, layout.mapping_mode)
    )
    return max(alike, default=0)
