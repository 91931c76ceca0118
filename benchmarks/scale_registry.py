"""The registry with 100, 1,000 and 10,000 streams. Each figure is that of a fresh process.

``python -m benchmarks.scale_registry REQUEST`` is that process. It needs no Spark.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.sources import Base, Source
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change

from . import processes
from .checks import memory
from .results import Row
from .tables import ROW_TRACKING, Workshop, create_table
from .timing import Patience, Timing

STREAMS = (100, 1_000, 10_000)
FEW_STREAMS = (10, 20)
TOGETHER = 100
# Upkeep is due after 20 commits, so each of so many rounds of a transition includes it twice.
ROUNDS = {"create": 40, "advance": 40, "describe": 9, "list": 5, "monitor": 3}
WORDS = {
    "create": "create a stream (clone)",
    "advance": "advance a stream",
    "describe": "describe one stream",
    "list": "describe all streams",
    "monitor": "check all streams for alerts",
}
LONGEST = "longest of 39 later rounds"
SIZE = "registry: its size on disk"
PEAK = "memory at the peak of the process"


def of(what: str) -> str:
    """The workload of the figures of ``what``."""
    return f"registry: {WORDS[what]}"


def measure(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """The registry with growing numbers of streams, each on a table of its own."""
    for streams in STREAMS if patience.is_thorough else FEW_STREAMS:
        root = workshop.new_folder()
        _make(spark, root, streams)
        size = sum(file.stat().st_size for file in (root / "state").rglob("*") if file.is_file())
        yield Row(SIZE, f"{streams:,} streams", None, size)
        for what in WORDS:
            yield from _rows(root, what, streams)
        shutil.rmtree(root)


def _rows(root: Path, what: str, streams: int) -> Iterator[Row]:
    request = {"state": str(root / "state"), "what": what, "streams": streams}
    answer = processes.answer(sys.executable, "benchmarks.scale_registry", request)
    found = json.loads(answer)
    yield Row(of(what), f"{streams:,} streams", Timing(tuple(found["seconds"])))
    if ROUNDS[what] == ROUNDS["advance"]:
        longest = Timing((max(found["seconds"][1:]),))
        yield Row(f"{of(what)}, {LONGEST}", f"{streams:,} streams", longest)
    yield Row(f"{of(what)}, {PEAK}", f"{streams:,} streams", None, found["peak_bytes"])


def _make(spark: SparkSession, root: Path, streams: int) -> None:
    """Make streams as the engine makes them, each on a copy of the log of one table."""
    create_table(spark, root / "t", "id BIGINT, n BIGINT, note STRING", {ROW_TRACKING: True})
    template = Engine(spark, str(root / "state")).create_stream("s", on_table=str(root / "t"))
    registry = Registry(str(root / "state"))
    made = [_copy(root, template, number) for number in range(1, streams)]
    for begin in range(0, len(made), TOGETHER):
        changes = [Change(each, Transition.CREATED) for each in made[begin : begin + TOGETHER]]
        registry.transact(registry.snapshot(), changes, actor="benchmark")


def _copy(root: Path, template: Stream, number: int) -> Stream:
    place = root / f"t{number}"
    shutil.copytree(root / "t/_delta_log", place / "_delta_log")
    source = Source(f"lake.t{number}", str(place), template.source.table_id)
    return replace(
        template,
        name=f"s{number}",
        stream_id=str(uuid.uuid4()),
        sequence=0,
        bases=(Base(source, template.offset),),
    )


def _work(state: str, what: str, streams: int) -> Callable[[], object]:
    catalog, numbers = StreamCatalog(state), count()
    match what:
        case "create":
            return lambda: catalog.clone_stream(f"c{next(numbers)}", "s")
        case "advance":
            return lambda: catalog.advance_stream(f"s{next(numbers) % (streams - 1) + 1}")
        case "describe":
            return lambda: catalog.describe_stream("s1")
        case "list":
            return catalog.describe_streams
        case _:
            return lambda: StreamMonitor(state).run({}, margin=timedelta(days=1))


def main() -> None:
    """Measure what the request in the first argument names."""
    request = json.loads(sys.argv[1])
    work = _work(request["state"], request["what"], request["streams"])
    seconds = []
    for _ in range(ROUNDS[request["what"]]):
        begun = time.perf_counter()
        work()
        seconds.append(round(time.perf_counter() - begun, 5))
    found = {"seconds": seconds, "peak_bytes": memory("VmHWM")}
    Path(request["out"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
