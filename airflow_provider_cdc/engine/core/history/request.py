"""What a caller of ``apply_changes`` asks for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..arguments.one_or_several import one_or_several
from ..consumption.batches import BatchLimit
from ..errors import InvalidRequest
from ..names import table_name
from .options import HistoryOptions, SourceKind
from .parsing import parse_options


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """A target, its options and its source; see ``Engine.apply_changes`` for the fields."""

    target: str
    options: HistoryOptions
    stream: str | None = None
    query: str | None = None
    snapshot: str | None = None
    snapshot_at: datetime | None = None
    cluster_by: tuple[str, ...] | None = None
    max_commits: int | None = None
    max_bytes: int | None = None

    @classmethod
    def parsed(
        cls,
        *,
        target: str,
        stream: str | None,
        query: str | None,
        snapshot: str | None,
        snapshot_at: datetime | None,
        cluster_by: str | Collection[str] | None,
        max_commits: int | None,
        max_bytes: int | None,
        **options: Any,
    ) -> HistoryRequest:
        """The request of the arguments of ``Engine.apply_changes``, as a caller writes them.

        :raises InvalidName: no table can have the name of the target
        :raises InvalidRequest: an argument has a form that is not accepted, or two contradict
        """
        subject = f"history target {table_name(target).sql}"
        source = _source_kind(subject, stream, query, snapshot)
        found = parse_options(subject, source=source, **options)
        limit = BatchLimit(max_commits, max_bytes)
        if stream is None and limit != BatchLimit():
            raise InvalidRequest(
                subject,
                "cannot be filled in part",
                cause="max_commits and max_bytes are for streams",
                fix="leave them out, or pass a stream",
            )
        if snapshot_at is not None and (snapshot is None or snapshot_at.tzinfo is None):
            raise InvalidRequest(
                subject,
                "cannot use this snapshot_at",
                cause="it is for snapshots" if snapshot is None else "it has no time zone",
                fix="leave it out" if snapshot is None else "write datetime(..., tzinfo=UTC)",
            )
        return cls(
            target=target,
            options=found,
            stream=stream,
            query=query,
            snapshot=snapshot,
            snapshot_at=snapshot_at,
            cluster_by=None
            if cluster_by is None
            else one_or_several(subject, "cluster_by", cluster_by),
            max_commits=limit.max_commits,
            max_bytes=limit.max_bytes,
        )

    @property
    def subject(self) -> str:
        """The subject of messages before the target is found."""
        return f"history target {self.target}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Engine.apply_changes`` for this request, except the consumer."""
        return {
            "target": self.target,
            "stream": self.stream,
            "query": self.query,
            "snapshot": self.snapshot,
            "snapshot_at": self.snapshot_at,
            "cluster_by": self.cluster_by,
            "max_commits": self.max_commits,
            "max_bytes": self.max_bytes,
            **self.options.arguments,
        }

    @property
    def limit(self) -> BatchLimit:
        """How much of the stream is taken at once."""
        return BatchLimit(self.max_commits, self.max_bytes)


def _source_kind(
    subject: str, stream: str | None, query: str | None, snapshot: str | None
) -> SourceKind:
    given = [word for word, value in (("stream", stream), ("query", query)) if value is not None]
    if snapshot is None and given:
        return SourceKind.STREAM if stream is not None else SourceKind.QUERY
    if snapshot is not None and not given:
        return SourceKind.SNAPSHOT
    raise InvalidRequest(
        subject,
        "has no source" if snapshot is None else "has two sources",
        cause="expected stream, query or snapshot"
        if snapshot is None
        else f"found snapshot and {' and '.join(given)}",
        fix="pass stream='...', query='SELECT ...' or snapshot='a_table'",
    )
