"""Tables with a width of 80 characters, which fit any terminal, page or log."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console, Group
from rich.filesize import decimal
from rich.live import Live
from rich.table import Table
from rich.text import Text

from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.errors import InvalidRequest

WIDTH = 80
"""The width of a table, in characters. On a narrower terminal, a table has its width."""

_BAR_CHARACTERS = 12
_MINUTES = 16
_DAY = 10
_HAS_DATA = {True: "yes", False: "no", None: "maybe"}
_MOST_DATA_COLUMNS = 8
_LEAST_SECONDS, _MOST_SECONDS = 0.5, 86_400.0

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title, and the text of its cell for a line of ``lines.py``.

    If a column ``folds``, it becomes narrower when the other columns need space.
    """

    title: str
    cell: Callable[[Line], str]
    folds: bool = False
    is_number: bool = False


def text(value: Any) -> str:
    """Return ``value`` as a terminal shows it; empty for ``None``."""
    return "" if value is None else str(value)


def size(count: int | None) -> str:
    """Return ``count`` bytes in a readable unit; empty for ``None``."""
    return "" if count is None else decimal(count)


def moment(value: str | None) -> str:
    """Return a time in ISO 8601 without seconds; empty for ``None``."""
    return "" if value is None else value[:_MINUTES].replace("T", " ")


def bar(slots: float, most: float) -> str:
    """Return a bar for ``slots``. The bar for ``most`` has the full length."""
    return "█" * round(slots / (most or 1) * _BAR_CHARACTERS)


STREAMS = (
    Column("name", lambda line: line["name"], folds=True),
    Column("on", lambda line: text(line["table_on"]), folds=True),
    Column("state", lambda line: "stale" if line["stale"] else text(line["phase"])),
    Column("offset", lambda line: text(line["offsets"]), folds=True, is_number=True),
    Column("commits\nbehind", lambda line: text(line["commits_behind"]), is_number=True),
    Column("rows\nwaiting", lambda line: text(line["rows_waiting"]), is_number=True),
    Column("has\ndata", lambda line: "" if line["invalid_reason"] else _HAS_DATA[line["has_data"]]),
    Column("stale after\n(UTC)", lambda line: moment(line["stale_after"])[:_DAY]),
)
"""The columns that show whether a stream needs attention, and what waits for it."""

CHANGE_STREAMS = (
    Column("name", lambda line: line["name"], folds=True),
    Column("on", lambda line: "\n".join(line["tables"]), folds=True),
    Column("parti-\ntions", lambda line: text(line["partitions"]), is_number=True),
    Column("captured until\n(UTC)", lambda line: moment(line["captured_through"])),
    Column("commits\nwaiting", lambda line: text(line["sealed_commits"]), is_number=True),
    Column("in quar-\nantine", lambda line: text(line["quarantined"]), is_number=True),
    Column("consumers, read until (UTC)", lambda line: _consumers(line["consumers"]), folds=True),
)
"""The columns that show how far a change stream and its consumers are."""

HISTORY = (
    Column("when\n(UTC)", lambda line: moment(line["at"])),
    Column("what", lambda line: line["transition"]),
    Column("offset", lambda line: ", ".join(map(str, line["versions"])), is_number=True),
    Column("inserted/updated/\ndeleted", lambda line: _rows(line["rows"]), is_number=True),
    Column("consumer", lambda line: text(line["consumer"]), folds=True),
    Column("by", lambda line: line["actor"], folds=True),
)
"""The columns that show who moved a stream, and how many rows were consumed."""

PLAN = (
    Column("table", lambda line: text(line["table"]), folds=True),
    Column("strategy", lambda line: line["strategy"].replace("_", " ")),
    Column("files", lambda line: text(line["files"]), is_number=True),
    Column("bytes", lambda line: size(line["bytes"]), is_number=True),
    Column("commits", lambda line: text(line["commits"]), is_number=True),
    Column("reason", lambda line: line["reason"], folds=True),
)
"""The columns that show how a change set would be read."""

UPSERT_TABLES = (
    Column("name", lambda line: line["name"], folds=True),
    Column("max\nstaleness", lambda line: text(line["max_staleness"]), folds=True),
    Column("applied until\n(UTC)", lambda line: moment(line["upsert_stream_apply_watermark"])),
    Column("commits\nwaiting", lambda line: text(line["pending_commits"]), is_number=True),
    Column("bytes\nwaiting", lambda line: size(line["pending_bytes"]), is_number=True),
    Column("in quar-\nantine", lambda line: text(line["quarantined_changes"]), is_number=True),
)
"""The columns that show how fresh an upsert table is, and whether changes are in quarantine."""

USAGE = (
    Column("period\n(UTC)", lambda line: moment(line["period_start"])),
    Column("class", lambda line: line["job_class"]),
    Column("jobs", lambda line: text(line["jobs"]), is_number=True),
    Column("seconds", lambda line: text(line["seconds"]), is_number=True),
    Column("read", lambda line: size(line["read_bytes"]), is_number=True),
    Column("slots", lambda line: line["plot"]),
)
"""The columns that show what the jobs of a period and class used."""

_DESCRIBED = (
    Column("column", lambda line: line["column"]),
    Column("value", lambda line: line["value"], folds=True),
)


def _datum(name: str, line: Line) -> str:
    """A value of a row as text. Nested values are shown as JSON."""
    value = line[name]
    if isinstance(value, dict | list | bool):
        return json.dumps(value, ensure_ascii=False)
    return text(value)


def _rows(found: Line | None) -> str:
    counts = [] if found is None else [found["inserted"], found["updated"], found["deleted"]]
    return "/".join(map(str, counts))


def _consumers(found: Sequence[Line]) -> str:
    return "\n".join(
        f"{each['consumer']} {moment(each['watermark'])}{' stale' if each['is_stale'] else ''}"
        for each in found
    )


def print_described(line: Line) -> None:
    """Print all columns of one line, each on a separate line."""
    lines = [{"column": name, "value": text(value)} for name, value in line.items()]
    _print(_DESCRIBED, lines, has_header=False)


def print_table(columns: Sequence[Column], lines: Sequence[Line]) -> None:
    """Print a line of text for each of ``lines``, or several lines if a column folds."""
    _print(columns, lines, has_header=True)


def print_rows(names: Sequence[str], lines: Sequence[Line]) -> None:
    """Print rows of data with the columns ``names``: as a table, or column by column if there are
    too many for a table.
    """
    if len(names) <= _MOST_DATA_COLUMNS:
        columns = [Column(name, partial(_datum, name), folds=True) for name in names]
        _print(columns, lines, has_header=True)
        return
    for line in lines:
        print_described({name: _datum(name, line) for name in names})
        console().print()


def table_of(columns: Sequence[Column], lines: Sequence[Line], *, has_header: bool = True) -> Table:
    """Return the table of ``lines``, with a line of text for each, or several if a column folds."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=has_header)
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=not column.folds,
        )
    for line in lines:
        table.add_row(*(column.cell(line) for column in columns))
    return table


def console() -> Console:
    """Return a console whose width fits the tables."""
    # Names may have square brackets, which rich would read as markup. Numbers need no colour.
    found = Console(markup=False, highlight=False)
    found.width = min(found.width, WIDTH) if sys.stdout.isatty() else WIDTH
    return found


def refresh_seconds(given: str | float) -> float:
    """The seconds between two refreshes of a watch, as a user gives them.

    :raises InvalidRequest: ``given`` is not a number of seconds from half a second to a day
    """
    try:
        found = float(given)
    except (ValueError, OverflowError):
        found = math.nan
    if _LEAST_SECONDS <= found <= _MOST_SECONDS:
        return found
    raise InvalidRequest(
        f"--every {given}",
        "is not a time between two refreshes",
        cause=f"expected {_LEAST_SECONDS:g} to {_MOST_SECONDS:g} seconds",
        fix="write a number of seconds such as 5",
    )


def watch(columns: Sequence[Column], query: Callable[[], Sequence[Line]], every: float) -> None:
    """Show the table of what ``query`` returns, and refresh it in place until Ctrl-C.

    :param every: the seconds between two refreshes
    """
    with suppress(KeyboardInterrupt), Live(console=console(), auto_refresh=False) as live:
        while True:
            lines = query()
            note = f"{utc_now():%Y-%m-%d %H:%M:%S} UTC, every {every:g} s; Ctrl-C ends it"
            live.update(Group(table_of(columns, lines), Text(note)), refresh=True)
            time.sleep(every)


def _print(columns: Sequence[Column], lines: Sequence[Line], *, has_header: bool) -> None:
    console().print(table_of(columns, lines, has_header=has_header))
