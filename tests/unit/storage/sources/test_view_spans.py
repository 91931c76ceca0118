"""Ranges of streams on views that hold no change, by the log alone."""

from __future__ import annotations

import json
from typing import Any

from streams import new_commit, new_offset, new_stream

from airflow_provider_cdc.engine.core.delta.log_actions import Commit, DataFile
from airflow_provider_cdc.engine.core.model.sources import Offset, View
from airflow_provider_cdc.engine.core.model.stream import StreamMode
from airflow_provider_cdc.engine.storage.sources.source_log import SourceRange, StreamSpan

FILE = DataFile("new", {}, 10, True, None, 100, 1, None)
INSERT = new_commit(1, adds=(FILE,))
DELETE = new_commit(2, "DELETE", removes=(FILE,))


def metadata(column_id: int = 1, **properties: str) -> dict[str, Any]:
    numbers = {"delta.columnMapping.id": column_id}
    field = {"name": "c", "type": "integer", "nullable": True, "metadata": numbers}
    schema = json.dumps({"type": "struct", "fields": [field]})
    return {"schemaString": schema, "configuration": properties}


def start() -> Offset:
    return new_offset(0, metadata())


def span(*tables: tuple[Commit, ...], mode: StreamMode = StreamMode.STANDARD) -> StreamSpan:
    stream = new_stream(mode=mode, view=View("v", "f", tuple(range(len(tables)))))
    ranges = (SourceRange(stream, start(), start(), commits) for commits in tables)
    return StreamSpan(stream, tuple(ranges))


def test_view_range_with_a_replaced_column_holds_a_change() -> None:
    dropped, added = metadata() | {"schemaString": '{"fields": []}'}, metadata(2)
    commits = (new_commit(1, metadata=dropped), new_commit(2, metadata=added))
    assert not span((), commits).holds_nothing
    properties = (new_commit(1, metadata=metadata(comment="x")), new_commit(2, "OPTIMIZE"))
    assert span((), properties).holds_nothing


def test_feed_range_with_a_changed_column_is_not_skipped() -> None:
    stream = new_stream(mode=StreamMode.FEED)

    def feed(*commits: Commit) -> StreamSpan:
        return StreamSpan(stream, (SourceRange(stream, start(), start(), commits),))

    assert not feed(new_commit(1, metadata=metadata(2))).holds_nothing
    assert feed(new_commit(1, metadata=metadata(comment="x")), new_commit(2)).holds_nothing
    assert not feed(INSERT).holds_nothing


def test_append_only_view_range_with_deleted_rows_holds_a_change() -> None:
    assert span((INSERT, DELETE), ()).holds_nothing
    assert not span((), (INSERT, DELETE), mode=StreamMode.APPEND_ONLY).holds_nothing
    # The rows that rows of other tables are joined with have changed.
    assert not span((DELETE,), (), mode=StreamMode.APPEND_ONLY).holds_nothing
