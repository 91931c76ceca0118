"""Which versions of their sources a target holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..figures import counted
from ..html_tables import html_table

BEFORE_ALL = -1
"""The version before the first one of any table."""


@dataclass(frozen=True, slots=True, order=True)
class VersionSpan:
    """The versions of a table after ``after_version`` up to and including ``through_version``.

    With ``after_version`` -1, all rows that the table had at ``through_version``.
    """

    after_version: int
    through_version: int

    def __str__(self) -> str:
        first = self.after_version + 1
        if self.through_version <= first:
            return str(self.through_version)
        return f"{first} to {self.through_version}"


@dataclass(frozen=True, slots=True)
class SourceVersions:
    """The versions of one source that a target holds.

    ``stream`` is the stream that they came through, by its name at that time. ``source`` is the
    name of the source. ``table_id`` distinguishes a recreated source from the original. ``spans``
    are in order and do not touch: the versions between two of them were skipped.
    """

    stream: str
    source: str
    table_id: str
    spans: tuple[VersionSpan, ...]

    @property
    def after_version(self) -> int:
        """The version before the oldest one."""
        return self.spans[0].after_version

    @property
    def through_version(self) -> int:
        """The newest version."""
        return self.spans[-1].through_version


@dataclass(frozen=True, slots=True)
class Provenance:
    """Which versions of their sources a version of a target holds, by the target's history.

    ``since_version`` is the oldest version of the target whose commit was read. If it is not 0, the
    target may hold older versions of its sources too. ``unknown_versions`` are the versions of the
    target that changed rows and do not name a source: another writer committed them, or a
    consumption of an earlier release, or one whose commits hold a text of the user as user
    metadata.
    """

    target: str
    version: int
    since_version: int
    sources: tuple[SourceVersions, ...]
    unknown_versions: tuple[int, ...] = ()

    def __repr__(self) -> str:
        held = "; ".join(f"{each.source} {_spans_text(each.spans)}" for each in self.sources)
        unknown = len(self.unknown_versions)
        others = f", and {counted(unknown, 'commit')} without a source" if unknown else ""
        return f"<Provenance of {self.target} version {self.version}: {held or 'nothing'}{others}>"

    def _repr_html_(self) -> str:
        """A table with the sources, for notebooks."""
        rows = ((each.source, _spans_text(each.spans), each.stream) for each in self.sources)
        return html_table(
            ("source", "versions", "stream"), rows, f"{self.target} at version {self.version}"
        )


def with_span(spans: Iterable[VersionSpan], found: VersionSpan) -> tuple[VersionSpan, ...]:
    """``spans`` and ``found``, in order; spans that overlap or touch become one."""
    merged: list[VersionSpan] = []
    for span in sorted((*spans, found)):
        if merged and span.after_version <= merged[-1].through_version:
            through = max(merged[-1].through_version, span.through_version)
            merged[-1] = VersionSpan(merged[-1].after_version, through)
        else:
            merged.append(span)
    return tuple(merged)


def _spans_text(spans: Iterable[VersionSpan]) -> str:
    return ", ".join(map(str, spans))
