"""A log of 100,000 commits with 1,000,000 files: what is read of it without Spark.

``python -m benchmarks.scale_logs REQUEST`` measures one question in a fresh process. The commits
are real, but the files that they add do not exist: nothing here opens them. A snapshot of the
table, which Spark makes when a statement reads the table itself, is not a part of it.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.change_sets.crafted_log import Side, crafted_log
from airflow_provider_cdc.engine.core.change_sets.read_plan import plan_difference
from airflow_provider_cdc.engine.core.delta.deletion_vectors import VectorFiles
from airflow_provider_cdc.engine.core.delta.table_schema import Layout
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog
from airflow_provider_cdc.engine.storage.delta.range_files import RangeFiles
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog, SourceRange

from . import processes
from .checks import memory
from .results import Row
from .tables import ROW_TRACKING, Workshop, create_table
from .timing import Patience, Timing

COMMITS = 100_000
FEW_COMMITS = 100
# In each commit; every tenth commit removes as many files of the commit before it.
FILES = 10
ROWS = 1_000
LAGS = (1, 100, 10_000, 100_000)
FEW_LAGS = (1, 50)
WORDS = {
    "offset": "read the newest offset, for a new stream",
    "probe": "check whether a stream has data",
    "plan": "plan a change set",
    "exists": "check that the files of a change set exist, on a local disk",
}
ROUNDS = 3
LONG_SECONDS = 5
PROCESSOR = "processor time"
PEAK = "memory at the peak of the process"
BASE = "a process that only imports the engine"


def of(what: str) -> str:
    """The workload of the figures of ``what``."""
    return f"log: {WORDS[what]}"


def measure(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """Questions about one long log, for streams that lag more and more commits."""
    commits = COMMITS if patience.is_thorough else FEW_COMMITS
    lags = LAGS if patience.is_thorough else FEW_LAGS
    root = workshop.new_folder()
    _make(spark, root, commits, lags)
    yield Row(f"log: {BASE}, {PEAK}", "0 commits", None, _asked(root, "nothing", 0)["peak_bytes"])
    for what in WORDS:
        for count in lags[-1:] if what == "offset" else lags:
            yield from _rows(root, what, count)
    shutil.rmtree(root)


def _rows(root: Path, what: str, count: int) -> Iterator[Row]:
    found = _asked(root, what, count)
    way = f"{count:,} commits" if what != "offset" else f"{count:,} commits in the log"
    yield Row(of(what), way, Timing(tuple(found["seconds"])))
    yield Row(f"{of(what)}, {PROCESSOR}", way, Timing(tuple(found["processor"])))
    yield Row(f"{of(what)}, {PEAK}", way, None, found["peak_bytes"])


def _asked(root: Path, what: str, count: int) -> dict[str, Any]:
    request = {"root": str(root), "what": what, "lag": count}
    found: dict[str, Any] = json.loads(
        processes.answer(sys.executable, "benchmarks.scale_logs", request)
    )
    return found


def _make(spark: SparkSession, root: Path, commits: int, lags: Sequence[int]) -> None:
    """Make a table with that many commits, a checkpoint of the newest one, and a stream for each
    number of commits that it lags.
    """
    table = create_table(spark, root / "t", "id BIGINT, n BIGINT", {ROW_TRACKING: True})
    engine = Engine(spark, str(root / "state"))
    template = engine.create_stream("s", on_table=str(root / "t"))
    spark.sql(f"INSERT INTO {table} SELECT id, id FROM range(0, {ROWS}, 1, 1)")
    first = template.offset.version + 1
    log = root / "t/_delta_log"
    text = (log / f"{first:020d}.json").read_text(encoding="utf-8")
    actions: dict[str, Any] = {}
    for line in text.splitlines():
        actions |= json.loads(line)
    newest = first + commits
    for version in range(first + 1, newest + 1):
        (log / f"{version:020d}.json").write_text(_commit(actions, version, first))
    _asked(root, "checkpoint", newest)
    registry, read = Registry(str(root / "state")), DeltaLog(str(root / "t"), Files())
    made = []
    for count in lags:
        commit = read.commit(newest - count)
        offset = replace(
            template.offset,
            version=commit.version,
            fingerprint=commit.fingerprint,
            timestamp=commit.timestamp,
            row_id_high_water_mark=commit.row_id_high_water_mark or -1,
        )
        stream = template.with_offsets(offset)
        made.append(replace(stream, name=f"s{count}", stream_id=f"s{count}", sequence=0))
    changes = [Change(stream, Transition.CREATED) for stream in made]
    registry.transact(registry.snapshot(), changes, actor="benchmark")


def _commit(actions: Mapping[str, Any], version: int, first: int) -> str:
    """The commit ``version``, like a real one, with :data:`FILES` new files."""
    number = version - first
    lines = [{"commitInfo": actions["commitInfo"]}]
    if number % FILES == 0:
        lines += [{"remove": _removed(version - 1, first, file)} for file in range(FILES)]
    for file in range(FILES):
        place = {"path": _path(version, file), "defaultRowCommitVersion": version}
        lines.append({"add": actions["add"] | place | {"baseRowId": _row(number, file)}})
    mark = {"rowIdHighWaterMark": _row(number + 1, 0) - 1}
    lines.append(
        {"domainMetadata": actions["domainMetadata"] | {"configuration": json.dumps(mark)}}
    )
    return "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)


def _removed(version: int, first: int, file: int) -> dict[str, Any]:
    return {
        "path": _path(version, file),
        "deletionTimestamp": 0,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": ROWS,
        "baseRowId": _row(version - first, file),
        "defaultRowCommitVersion": version,
    }


def _row(number: int, file: int) -> int:
    return (number * FILES + file) * ROWS


def _path(version: int, file: int) -> str:
    return f"part-{file:05d}-{uuid.UUID(int=version)}-c000.snappy.parquet"


def _work(root: Path, what: str, lag: int) -> Callable[[], object]:
    files, location = Files(), str(root / "t")
    sources, catalog = SourceLog(files), StreamCatalog(str(root / "state"))
    match what:
        case "checkpoint":
            return DeltaTable(location).create_checkpoint
        case "offset":
            return lambda: sources.newest_offset(location)
        case "probe":
            return lambda: catalog.probe_stream(f"s{lag}")
        case "plan":
            return lambda: _plan(catalog.get_stream(f"s{lag}"))
        case "exists":
            span = sources.range(catalog.get_stream(f"s{lag}"))
            source = RangeFiles(location, files)
            listed = source.listed(plan_difference(span.commits, [_layout(span)]).net)
            return lambda: source.missing([each.file for each in listed])
        case _:
            return lambda: None


def _layout(span: SourceRange) -> Layout:
    return Layout.of(span.end.metadata)


def _plan(stream: Stream) -> None:
    """Plan a change set by file difference, up to the logs that Spark reads."""
    span = SourceLog(Files()).range(stream)
    reading = plan_difference(span.commits, [_layout(span)])
    listed = RangeFiles(stream.source.location, Files()).listed(reading.net)
    for side in (Side.OLD, Side.NEW):
        files = [each for each in listed if each.side is side]
        crafted_log(_layout(span), span.end.protocol, files, "id", VectorFiles("file:///v"))


def main() -> None:
    """Measure what the request in the first argument names."""
    request = json.loads(sys.argv[1])
    work = _work(Path(request["root"]), request["what"], request["lag"])
    seconds: list[float] = []
    processor: list[float] = []
    while len(seconds) < ROUNDS and sum(seconds) < LONG_SECONDS:
        begun, before = time.perf_counter(), time.process_time()
        work()
        seconds.append(round(time.perf_counter() - begun, 5))
        processor.append(round(time.process_time() - before, 5))
    found = {"seconds": seconds, "processor": processor, "peak_bytes": memory("VmHWM")}
    Path(request["out"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
