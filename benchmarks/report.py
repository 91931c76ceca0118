"""The page of the results: tables, plots, and each goal with its figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import flights, freshness, goals, plots, results, slopes
from .readers import STREAM, WAYS
from .results import Row, Run
from .shapes import COMMITS, workloads

TITLES = {
    "changes": "Reading net changes",
    "feed": "Reading every change",
    "archives": "Archives and checks",
    "change_streams": "Change streams",
    "consumption": "Consuming",
    "checks": "What is asked often",
    "writes": "What writers pay",
    "upserts": "Upserts",
    "history": "Histories (SCD type 2)",
    "wide": "Wide tables",
    "freshness": "From commit to commit",
    "scale": "Scale",
}
HEAD = """# Benchmarks

Written by `make bench` from what it keeps in `benchmarks/results/`. A full run takes most of a
day: it is measured piece by piece (`BENCH='--resume'`), all ways to do the work of a line in one
run; each part names the day, the machine and the revision of its pieces.

Seconds are medians of the rounds after those that warm up (ten seconds or five rounds of them). The
scan floor, the stream and the feed take turns after that, up to nine rounds of each, so that none
of them meets a warmer JVM or a quieter machine. Whatever else is measured is repeated until a
minute was spent, and a first round of more than a minute is the measurement itself. ≥: stopped
after that long, or when it had filled the disk, where that is said. Row tracking and the change
data feed are on in the tables that are read; a session has four shuffle partitions, with which
these ways are faster here than with Spark's 200. Spark's CHANGES and Iceberg's view are timed with
200, and where that takes less than a minute with four as well: the better one counts.

With change streams, the ways to keep all changes take turns too, and so do the reads. Each round of
the first begins with a copy of the change streams as they were before the commits. The reads keep
the order of the records, which the other reads on this page do not have to. What needs no Spark is
repeated nine times after a round that does not count.

Each figure of the part on scale is that of a fresh process, first round included; each job is a
spark-submit of its own, and is measured once. The machine did other work meanwhile, so where the
processor time of the processes is given, the goals are judged by that.

The number of rows of each kind that a way finds is compared with the number that it must find.
Two ways are exempt: the scan floor, which reads every column of every touched file once and nets
nothing, and the feed that is not netted. The *stream* reads as the planner decides, which is what
users get, and what the goals are judged by; the lines below it force each of its two strategies.
A goal is *not known* where its peer was stopped before it had taken long enough. Spark's CHANGES
is off in Delta by default, and was switched on.
"""


def write(folder: Path, page: Path) -> None:
    """Write the page of the results in ``folder``, and its plots beside it."""
    runs = [_sorted(run) for part in TITLES if (run := results.read(folder, part)) is not None]
    parts = [HEAD, *_goals(runs)]
    for run in runs:
        parts.append(f"\n## {TITLES[run.part]}\n")
        if run.part == "freshness":
            parts.append(f"{_origins(run)}\n\n{_freshness(run)}")
            continue
        parts.append(f"{_sizes(run)} {_origins(run)}\n")
        if run.part == "changes":
            parts.append(_changes(run))
            parts.extend(f"![{name}]({path})\n" for name, path in plots.write(run, page))
        else:
            parts.append(_listed(run))
        if run.part == "scale":
            parts.append(_slopes(run))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(parts).replace("\n\n\n", "\n\n"), encoding="utf-8")


def _sizes(run: Run) -> str:
    if run.part == "scale":
        return "Tables of up to 1,000 rows."
    return (
        f"Tables of {run.table_rows:,} rows; no round is longer than {run.limit_seconds:g} s,"
        " or fills the disk."
    )


def _sorted(run: Run) -> Run:
    """``run`` in the order of the workloads. One that was measured again was at the end."""
    names = [flights.NAME, *(item.name for item in workloads(run.table_rows, COMMITS))]
    places = {name: place for place, name in enumerate(names)}
    return replace(run, rows=sorted(run.rows, key=lambda row: places.get(row.workload, 0)))


def _origins(run: Run) -> str:
    """When and where the pieces were measured, and their revisions."""
    places: dict[tuple[str, str], list[str]] = {}
    for piece in run.pieces:
        revisions = places.setdefault((piece.date, piece.machine), [])
        if piece.revision not in revisions:
            revisions.append(piece.revision)
    parts = [
        f"{date} on {machine} (revision {', '.join(revisions)})"
        for (date, machine), revisions in sorted(places.items())
    ]
    return f"Measured on {'; on '.join(parts)}." if parts else ""


def _goals(runs: Sequence[Run]) -> list[str]:
    found = [goal for run in runs for goal in goals.of(run)]
    if not found:
        return []
    lines = ["\n## Goals\n", "| goal | wanted | found | |", "| --- | ---: | ---: | --- |"]
    lines.extend(
        f"| {goal.text} | {goal.wanted} | {goal.found} | {goal.verdict} |" for goal in found
    )
    return [*lines, ""]


def _changes(run: Run) -> str:
    lines = [
        "Seconds, and in brackets the multiple of the stream's own time. Iceberg's view refuses"
        " tables with delete files: it read copy-on-write tables, and none of the flights.\n",
        "| workload | touched | what the stream reads | " + " | ".join(WAYS) + " |",
        "| --- | ---: | --- |" + " ---: |" * len(WAYS),
    ]
    for workload, rows in run.by_workload().items():
        touched = max(row.size_bytes for row in rows.values()) / 1e6
        ours = rows.get(STREAM.name)
        cells = " | ".join(_cell(rows.get(name), ours) for name in WAYS)
        plan = "" if ours is None else ours.plan
        lines.append(f"| {workload} | {touched:.1f} MB | {plan} | {cells} |")
    wanted = [item.name for item in workloads(run.table_rows, COMMITS)]
    missing = [name for name in wanted if name not in run.by_workload()]
    if run.repeats > 1 and missing:
        lines.append(f"\nNot measured yet: {'; '.join(missing)}.")
    unjudged = [name for name, rows in run.by_workload().items() if STREAM.name not in rows]
    if unjudged:
        lines.append(
            "\nMeasured before the stream itself had a line, with a floor that looked at each path"
            " and four partitions for all, so no goal is judged by it:"
            f" {'; '.join(unjudged)}."
        )
    return "\n".join(lines) + "\n"


def _freshness(run: Run) -> str:
    variants = run.by_workload()
    lines = [
        "Seconds from the commit of one inserted row in a small source to the commit of the MERGE"
        " in its target, under a real Airflow on PostgreSQL with the LocalExecutor and its default"
        " settings: the median, and the 95th percentile in brackets. The changes come one after"
        " another. Detection ends when Airflow records that the source has data, scheduling when"
        " the task is queued, its start when it runs, and the start of the job when the"
        " consumption begins. As many changes before those that are counted warm up, up to ten (of"
        " spark-submit: two). The jobs of the peers have no stages.\n",
        "| way | changes | " + " | ".join((freshness.TOTAL, *freshness.STAGES)) + " |",
        "| --- |" + " ---: |" * (2 + len(freshness.STAGES)),
    ]
    for name, rows in variants.items():
        total = rows.get(freshness.TOTAL)
        if total is not None and total.timing is not None:
            stages = (freshness.TOTAL, *freshness.STAGES)
            cells = " | ".join(_with_p95(rows.get(stage)) for stage in stages)
            lines.append(f"| {name} | {len(total.timing.seconds)} | {cells} |")
    for way, row in variants.get(freshness.IDLE, {}).items():
        if row.timing is not None:
            lines.append(f"\n{freshness.IDLE}, all of Airflow, {way}: {row.timing.median:.0f}.")
    return "\n".join(lines) + "\n"


def _with_p95(row: Row | None) -> str:
    if row is None or row.timing is None:
        return ""
    return f"{row.timing.median:.2f} ({row.timing.p95:.2f})"


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


def _slopes(run: Run) -> str:
    """What the figures of growing sizes give for larger ones."""
    lines = [
        "On the line through the two largest sizes, ten and a hundred times the largest size would"
        " take (computed, not measured):\n",
        "| figure | largest size | measured | power of the size | 10 times | 100 times |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for slope in slopes.of(run):
        shown = _mebibytes if slope.is_bytes else _seconds
        figures = (shown(slope.values[-1]), f"{slope.exponent:.2f}")
        computed = (shown(slope.at(10)), shown(slope.at(100)))
        size = f"{slope.sizes[-1]:,} {slope.unit}"
        lines.append(f"| {slope.workload} | {size} | {' | '.join((*figures, *computed))} |")
    return "\n".join(lines) + "\n"


def _seconds(value: float) -> str:
    return f"{value:{'.3g' if value < 1 else ',.1f'}} s"


def _mebibytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"
