"""The page of the results: tables, plots, and each goal with its figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import flights, goals, plots, results
from .readers import OURS, WAYS
from .results import Row, Run
from .shapes import COMMITS, workloads

TITLES = {
    "changes": "Reading net changes",
    "consumption": "Consuming",
    "checks": "What is asked often",
    "writes": "What writers pay",
    "upserts": "Upserts",
}
HEAD = """# Benchmarks

Written by `make bench`. Seconds are medians of the rounds after those that warm up (ten seconds or
five rounds of them); once a minute was spent there is no further round, and a first round of more
than a minute is the measurement itself. The scan floor, the stream and the feed take turns after
that, up to nine rounds of each, so that none of them meets a warmer JVM or a quieter machine. Row
tracking and the change data feed are on in the tables that are read. All ways to do the work of a
line were measured in one run, and what each of them found was compared with what it must find. ≥:
stopped after that long. *Scan floor* reads every column of every touched file once and nets
nothing.
"""


def write(folder: Path, page: Path) -> None:
    """Write the page of what ``folder`` keeps, and its plots beside it."""
    runs = [_sorted(run) for part in TITLES if (run := results.read(folder, part)) is not None]
    parts = [HEAD, *_goals(runs)]
    for run in runs:
        parts.append(f"\n## {TITLES[run.part]}\n")
        parts.append(
            f"{run.machine}; tables of {run.table_rows:,} rows; {run.repeats} rounds, none longer"
            f" than {run.limit_seconds:g} s.\n"
        )
        if run.part == "changes":
            parts.append(_changes(run))
            parts.extend(f"![{name}]({path})\n" for name, path in plots.write(run, page))
        else:
            parts.append(_listed(run))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(parts).replace("\n\n\n", "\n\n"), encoding="utf-8")


def _sorted(run: Run) -> Run:
    """``run`` in the order of the workloads: what was measured again stands at the end."""
    names = [flights.NAME, *(item.name for item in workloads(run.table_rows, COMMITS))]
    places = {name: place for place, name in enumerate(names)}
    return replace(run, rows=sorted(run.rows, key=lambda row: places.get(row.workload, 0)))


def _goals(runs: Sequence[Run]) -> list[str]:
    found = [goal for run in runs for goal in goals.of(run)]
    if not found:
        return []
    lines = ["\n## Goals\n", "| goal | wanted | found | |", "| --- | ---: | ---: | --- |"]
    lines.extend(
        f"| {goal.text} | {goal.wanted} | {goal.found} | {'met' if goal.is_met else 'not met'} |"
        for goal in found
    )
    return [*lines, ""]


def _changes(run: Run) -> str:
    lines = [
        "Seconds, and in brackets the multiple of the stream's own time by file difference."
        " Iceberg's view refuses tables with delete files: it read copy-on-write tables.\n",
        "| workload | touched | " + " | ".join(WAYS) + " |",
        "| --- | ---: |" + " ---: |" * len(WAYS),
    ]
    for workload, rows in run.by_workload().items():
        touched = max(row.size_bytes for row in rows.values()) / 1e6
        cells = " | ".join(_cell(rows.get(name), rows.get(OURS.name)) for name in WAYS)
        lines.append(f"| {workload} | {touched:.1f} MB | {cells} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row | None, ours: Row | None) -> str:
    if row is None or row.timing is None:
        return ""
    text = row.timing.short
    if ours is None or ours.timing is None or row is ours:
        return text
    bound = "≥ " if row.timing.is_lower_bound else ""
    return f"{text} ({bound}{row.timing.median / ours.timing.median:.1f})"


def _listed(run: Run) -> str:
    lines = ["| workload | way | seconds | multiple of the first |", "| --- | --- | ---: | ---: |"]
    for workload, rows in run.by_workload().items():
        first = next(iter(rows.values())).timing
        for row in rows.values():
            if row.timing is None:
                lines.append(f"| {workload} | {row.way} | {row.size_bytes / 2**20:.0f} MiB | |")
                continue
            share = "" if first is None else f"{row.timing.median / first.median:.2f}"
            lines.append(f"| {workload} | {row.way} | {row.timing.short} | {share} |")
    return "\n".join(lines) + "\n"
