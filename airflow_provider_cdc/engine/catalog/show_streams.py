"""The line of a stream in SHOW STREAMS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from rich.filesize import decimal

from ..core.figures import counted
from ..core.html_tables import html_table
from ..core.model.stream import StreamMode
from ..core.names import table_name
from ..core.summaries import moment_text, place_text
from .stream_status import StreamStatus


def shown(status: StreamStatus) -> dict[str, Any]:
    """One line of SHOW STREAMS: its columns in order, each with a plain value.

    ``catalog`` and ``database`` come from the name of the source as it was given. A path has
    neither. ``offsets`` are the offsets of the base tables, in order. ``offset`` is set if there is
    only one base table. ``rows_waiting`` and ``has_data`` are ``None`` if the log does not show
    them. ``readers`` and ``consumers`` are ``None`` if no list was given, and empty for an empty
    list.
    """
    parts = () if status.table_on is None else table_name(status.table_on).parts
    extension = status.max_data_extension
    is_one = len(status.base_tables) == 1
    return {
        "created_on": status.created_at,
        "name": status.name,
        "catalog": parts[-3] if len(parts) > 2 else None,  # noqa: PLR2004 - catalog, schema, table
        "database": parts[-2] if len(parts) > 1 else None,
        "table_on": status.table_on,
        "owner": status.owner,
        "readers": _names(status.readers),
        "consumers": _names(status.consumers),
        "comment": status.comment,
        "mode": _word(status.mode),
        "append_semantics": _word(status.append_semantics)
        if status.mode is StreamMode.APPEND_ONLY
        else None,
        "column_style": _word(status.column_style),
        "type": "DELTA" if status.file_format is None else status.file_format.value.upper(),
        "base_tables": ", ".join(base.table for base in status.base_tables),
        "phase": _word(status.phase),
        "offset": status.offset_version if is_one else None,
        "offsets": ", ".join(str(base.offset_version) for base in status.base_tables),
        "latest_version": status.latest_version if is_one else None,
        "commits_behind": status.commits_behind,
        "bytes_behind": status.bytes_behind,
        "rows_waiting": status.rows_waiting,
        "has_data": status.has_data,
        "behind_since": status.behind_since,
        "complete_through": status.complete_through,
        "max_lag_seconds": None if status.max_lag is None else status.max_lag.total_seconds(),
        "stale": status.stale,
        "stale_after": status.stale_after,
        "kept_until": status.kept_until,
        "max_data_extension_seconds": None if extension is None else extension.total_seconds(),
        "invalid_reason": status.invalid_reason,
        "last_consumed_on": status.last_consumed_at,
        "last_consumer": status.last_consumer,
        "verified_through": status.verified_through,
        "differing_keys": sum(each.differing_keys for each in status.verifications)
        if status.verifications
        else None,
    }


def shown_html(lines: Iterable[Mapping[str, Any]]) -> str:
    """The lines of SHOW STREAMS as a table of HTML, with the columns that show whether a stream
    needs attention.

    :param lines: as :func:`shown` returns them
    """
    titles = ("name", "on", "state", "offset", "waiting", "stale after", "reason")
    rows = [tuple(_cells(line)) for line in lines]
    return html_table(titles, rows, counted(len(rows), "stream"))


def _cells(line: Mapping[str, Any]) -> Iterator[object]:
    yield line["name"]
    yield None if line["table_on"] is None else place_text(line["table_on"])
    yield "stale" if line["stale"] else line["phase"]
    yield line["offsets"]
    commits, size = line["commits_behind"], line["bytes_behind"]
    waiting = None if commits is None else counted(commits, "commit")
    yield f"{waiting} ({decimal(size)})" if commits and size else waiting
    yield moment_text(line["stale_after"])
    yield line["invalid_reason"]


def _word(choice: StrEnum | None) -> str | None:
    return None if choice is None else choice.value


def _names(principals: tuple[str, ...] | None) -> str | None:
    return None if principals is None else ", ".join(principals)
