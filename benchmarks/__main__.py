"""``python -m benchmarks``: measure, keep the results, and write their page."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from . import (
    archives,
    change_streams,
    changes,
    checks,
    consumption,
    feed,
    fixed_cost,
    flights,
    freshness,
    history,
    large_source,
    many_streams,
    partition_lists,
    report,
    results,
    scale_logs,
    scale_registry,
    session,
    upserts,
    wide,
    writes,
)
from .results import Row, Run
from .shapes import COMMITS, workloads
from .tables import Workshop
from .timing import Patience

HERE = Path(__file__).parent
RESULTS = HERE / "results"
# Runs with smaller tables are smoke tests.
FULL_ROWS = 1_000_000
FIRST_COMPILER_ALONE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
PAGE = HERE.parent / "docs/benchmarks.md"
Piece = tuple[str, Callable[[], Iterable[Row]]]


class Part(StrEnum):
    """The parts of the benchmark, each with its file of results."""

    CHECKS = "checks"
    CONSUMPTION = "consumption"
    WRITES = "writes"
    UPSERTS = "upserts"
    HISTORY = "history"
    WIDE = "wide"
    CHANGES = "changes"
    FEED = "feed"
    ARCHIVES = "archives"
    CHANGE_STREAMS = "change_streams"
    FRESHNESS = "freshness"
    SCALE = "scale"


# Parts whose pieces can be measured alone.
_DIVISIBLE = (Part.CHANGES, Part.FEED, Part.CHANGE_STREAMS, Part.FRESHNESS, Part.SCALE)


def main(
    rows: Annotated[int, typer.Option(help="rows of each table")] = 10_000_000,
    repeats: Annotated[int, typer.Option(help="timed rounds, 0: 3 or 1 by size")] = 0,
    limit: Annotated[
        float, typer.Option(help="seconds that stop a round, 0: 600 or 60 by size")
    ] = 0,
    part: Annotated[list[Part] | None, typer.Option(help="only these parts")] = None,
    commits: Annotated[str, typer.Option(help="1,10,100 or 10 by size")] = "",
    changes_each: Annotated[
        int, typer.Option("--changes", help="of each variant of freshness, 0: 100 or 2 by size")
    ] = 0,
    only: Annotated[str, typer.Option(help="only workloads whose names hold this")] = "",
    reader: Annotated[str, typer.Option(help="only readers whose names hold this")] = "",
    resume: Annotated[bool, typer.Option(help="keep the workloads that were measured")] = False,
    out: Annotated[Path | None, typer.Option(help="the folder of the results")] = None,
    page: Annotated[Path | None, typer.Option(help="the page to write them to")] = None,
) -> None:
    """Measure reading changes, consuming them, frequent checks, and what writers pay."""
    is_full = rows >= FULL_ROWS
    # A partial measurement must not replace a full one.
    is_partial = (bool(only or reader or part) and not resume) or repeats == 1
    out = out or (HERE.parent / ".state/bench" if is_partial or not is_full else RESULTS)
    patience = Patience(repeats or (3 if is_full else 1), limit or (600 if is_full else 60))
    counts = tuple(map(int, commits.split(","))) if commits else COMMITS if is_full else (2,)
    if not is_full:
        # Otherwise the second compiler of the JVMs would take most of a short run.
        given = os.environ.get("SPARK_SUBMIT_OPTS", "")
        os.environ["SPARK_SUBMIT_OPTS"] = f"{given} {FIRST_COMPILER_ALONE}".strip()
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        spark = session.new_session(Path(folder))
        workshop = Workshop(spark, Path(folder))
        measurement = changes.Measurement(spark, workshop, patience, reader)

        def pieces(which: Part) -> Iterator[Piece]:  # noqa: PLR0912 - one branch a part
            match which:
                case Part.CHECKS:
                    yield "all", partial(checks.measure, spark, workshop, patience)
                case Part.CONSUMPTION:
                    yield "fixed cost", partial(fixed_cost.measure, spark, workshop, patience)
                    yield "whole", partial(consumption.whole, spark, workshop, rows, patience)
                case Part.WRITES:
                    yield "all", partial(writes.measure, spark, workshop, rows, patience)
                case Part.UPSERTS | Part.HISTORY | Part.SCALE:
                    yield from _sizes(which, spark, workshop, rows, patience)
                case Part.WIDE:
                    yield from wide.pieces(spark, workshop, patience)
                case Part.FEED:
                    for item in feed.workloads(rows, counts):
                        yield item.name, partial(feed.measure, spark, workshop, item, patience)
                case Part.ARCHIVES:
                    yield "archive", partial(archives.archived, spark, workshop, rows, patience)
                    yield "checks", partial(archives.verified, spark, workshop, rows, patience)
                case Part.CHANGE_STREAMS:
                    for item in change_streams.workloads(rows):
                        work = partial(change_streams.measure, spark, workshop, item, patience)
                        yield item.name, work
                    yield "ticks", partial(partition_lists.ticks, spark, workshop, patience)
                    yield "lists", partial(partition_lists.lists, spark, workshop, patience)
                case Part.FRESHNESS:
                    effort = freshness.Effort.of_size(changes_each, is_full=is_full)
                    yield from freshness.pieces(spark, workshop, effort)
                case Part.CHANGES:
                    yield flights.NAME, partial(measurement.flights, 365 if is_full else 4)
                    for item in workloads(rows, counts, is_smoke=not is_full):
                        yield item.name, partial(measurement.workload, item)

        for which in part or Part:
            # This part varies only the width of its tables.
            size = wide.ROWS if which is Part.WIDE else rows
            run = _kept(out, which, size, patience, reader, resume=resume)
            measured = {each.name for each in run.pieces}
            for piece, measure in pieces(which):
                may_be_left_out = which in _DIVISIBLE
                if piece not in measured and (not may_be_left_out or only in piece):
                    _keep(run, results.piece(piece), measure(), out)
        spark.stop()
    report.write(out, page or (PAGE if out == RESULTS else out / "benchmarks.md"))


def _sizes(
    part: Part, spark: SparkSession, workshop: Workshop, rows: int, patience: Patience
) -> Iterator[Piece]:
    """The pieces of parts that measure growing sizes."""
    if part is Part.SCALE:
        yield "together", partial(many_streams.together, spark, workshop, patience)
        yield "at once", partial(many_streams.at_once, spark, workshop, patience)
        yield "separately", partial(many_streams.separately, spark, workshop, patience)
        yield "registry", partial(scale_registry.measure, spark, workshop, patience)
        yield "logs", partial(scale_logs.measure, spark, workshop, patience)
        yield "two workers", partial(large_source.measure, spark, workshop, patience)
        return
    module = upserts if part is Part.UPSERTS else history
    yield "one size", partial(module.one_size, spark, workshop, rows, patience)
    yield "growth", partial(module.growth, spark, workshop, rows, patience)


def _kept(
    out: Path, part: Part, rows: int, patience: Patience, reader: str, *, resume: bool
) -> Run:
    new = Run(part, rows, patience.repeats, patience.limit, reader)
    old = results.read(out, part) if resume else None
    if old is None:
        return new
    settings = ("table_rows", "repeats", "limit_seconds", "readers")
    if any(getattr(old, name) != getattr(new, name) for name in settings):
        raise typer.BadParameter(f"{part}: was measured with other settings", param_hint="--resume")
    return old


def _keep(run: Run, piece: results.Piece, rows: Iterable[Row], out: Path) -> None:
    """Measure a piece, and write its rows when all of them are measured."""
    begun = time.monotonic()
    found = []
    for row in rows:
        typer.echo(f"{row.workload}: {row.way}: {row.timing or row.size_bytes}")
        found.append(row)
    run.rows.extend(found)
    run.pieces.append(piece)
    typer.echo(f"{run.part}: {piece.name}: {time.monotonic() - begun:.0f} s in all")
    results.write(run, out)


if __name__ == "__main__":
    typer.run(main)
