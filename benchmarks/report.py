"""The page of a run: each reader's time as a multiple of ours, workload by workload."""

from __future__ import annotations

from .readers import OURS, READERS
from .results import Row, Run

HEAD = """# Benchmarks

Written by `make bench`; the figures are medians of one run, after a round that warms up. Every
reader but the floor and the feed that is not netted was checked to find the same changes.

"""


def page(run: Run) -> str:
    """The run as a Markdown page."""
    lines = [
        HEAD + f"{run.table_rows:,} rows; {run.machine}; Spark {run.spark}; {run.repeats} repeats;"
        f" stopped after {run.limit_seconds:g} s (shown as ≥).",
        "",
        "Seconds, and in brackets the multiple of the stream's own time by file difference.",
        "",
        "| workload | touched | " + " | ".join(reader.name for reader in READERS) + " |",
        "| --- | ---: |" + " ---: |" * len(READERS),
    ]
    by_workload: dict[str, dict[str, Row]] = {}
    for row in run.rows:
        by_workload.setdefault(row.workload, {})[row.reader] = row
    for workload, rows in by_workload.items():
        touched = max(row.touched_bytes for row in rows.values())
        cells = [_cell(rows.get(reader.name), rows.get(OURS.name)) for reader in READERS]
        lines.append(f"| {workload} | {touched / 1e6:.1f} MB | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(row: Row | None, ours: Row | None) -> str:
    if row is None:
        return ""
    bound = "≥ " if row.timing.is_lower_bound else ""
    text = f"{bound}{row.timing.median:.2f}"
    if ours is None or row is ours:
        return text
    return f"{text} ({bound}{row.timing.median / ours.timing.median:.1f})"
