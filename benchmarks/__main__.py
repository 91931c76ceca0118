"""``python -m benchmarks``: run the benchmarks, write the results and their page."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine.storage.files import Files
from airflow_provider_cdc.engine.storage.source_log import SourceLog

from . import report, results
from .readers import READERS, Reader
from .session import new_session
from .timing import timed
from .workloads import Bench, Workload, Workshop, workloads

HERE = Path(__file__).parent


def main(
    rows: Annotated[int, typer.Option(help="rows of each table")] = 10_000_000,
    repeats: Annotated[int, typer.Option(help="timed rounds after the one that warms up")] = 3,
    limit: Annotated[float, typer.Option(help="seconds after which a round is stopped")] = 600,
    only: Annotated[str, typer.Option(help="a part of the workloads' names")] = "",
    reader: Annotated[str, typer.Option(help="a part of the readers' names")] = "",
    out: Annotated[Path, typer.Option(help="where the results go")] = HERE / "results/changes.json",
    page: Annotated[Path | None, typer.Option(help="where their page goes")] = None,
) -> None:
    """Read the changes of every workload in every way, and compare."""
    chosen = [item for item in READERS if reader in item.name]
    found: list[results.Row] = []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        spark = new_session(Path(folder))
        workshop = Workshop(spark, Path(folder))
        for workload in workloads(rows):
            if only in workload.name:
                found += _measure(spark, workshop, workload, chosen, repeats, limit)
                run = results.new_run(rows, repeats, limit, found)
                results.write(run, out)
        spark.stop()
    if page is not None:
        page.write_text(report.page(results.read(out)), encoding="utf-8")


def _measure(
    spark: SparkSession,
    workshop: Workshop,
    workload: Workload,
    chosen: list[Reader],
    repeats: int,
    limit: float,
) -> list[results.Row]:
    found = []
    for has_feed in (False, True):
        readers = [item for item in chosen if item.needs_feed == has_feed]
        if not readers:
            continue
        bench = workshop.build(replace(workload, has_feed=has_feed))
        size = SourceLog(Files()).range(bench.stream).net_files().size_bytes
        for item in readers:
            timing = timed(spark, lambda: item.read(spark, bench), repeats=repeats, limit=limit)  # noqa: B023 - used at once
            found.append(results.Row(workload.name, item.name, timing, size))
            typer.echo(f"{workload.name}: {item.name}: {timing}")
            if not timing.is_lower_bound:
                _check(spark, item, bench)
        workshop.remove(bench)
    return found


def _check(spark: SparkSession, item: Reader, bench: Bench) -> None:
    if item.counted is None:
        return
    counted = item.counted(item.read(spark, bench))
    if counted != bench.workload.expected:
        raise AssertionError(f"{item.name} found {counted}, expected {bench.workload.expected}")


if __name__ == "__main__":
    typer.run(main)
