"""Frequent questions that need no Spark: the sensor's check, folding a long log, SHOW."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.change_sets.read_plan import plan_difference
from airflow_provider_cdc.engine.core.delta.table_schema import Layout
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

from .results import Row
from .tables import ROW_TRACKING, Workshop, create_table
from .timing import Patience, Timing, timed_without_spark

LOGS = (10, 1_000, 10_000)
SMALL_LOGS = LOGS[:2]
PROBE = "sensor's probe"
STREAMS, TRANSITIONS = 1_000, 10_000
SMALL_TRANSITIONS = 2_000
TOGETHER = 10
ROUNDS = 9


def measure(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """All checks; a smoke test has shorter logs."""
    logs = LOGS if patience.is_thorough else SMALL_LOGS
    for commits in logs:
        root = workshop.new_folder()
        _long_log(spark, root, commits)
        group = with_data(commits)
        catalog = StreamCatalog(str(root / "state"))
        yield Row(group, PROBE, _rounds(partial(_probe, catalog, has_data=True)))
        yield Row(group, "status with exact lag", _rounds(partial(catalog.describe_stream, "s")))
        yield from _folding(root, group, patience)
    for commits in logs[1:]:
        root = workshop.new_folder()
        _long_log(spark, root, commits, is_maintenance=True)
        probe = partial(_probe, StreamCatalog(str(root / "state")), has_data=False)
        yield Row(of_maintenance(commits), PROBE, _rounds(probe))
    root = workshop.new_folder()
    create_table(spark, root / "t", "id BIGINT", {})
    engine = Engine(spark, str(root / "state"))
    template = engine.create_stream("s", on_table=str(root / "t"))
    transitions = TRANSITIONS if patience.is_thorough else SMALL_TRANSITIONS
    _make_transitions(str(root / "state"), template, transitions)
    catalog = StreamCatalog(str(root / "state"))
    group = f"{STREAMS:,} streams after {transitions:,} transitions, {TOGETHER} a commit"
    yield Row(group, "SHOW", _rounds(catalog.list_streams))


def with_data(commits: int) -> str:
    """The name in results for this many commits of data; the newest one answers a check."""
    return f"{commits:,} commits behind"


def of_maintenance(commits: int) -> str:
    """The name in results for this many commits that a check has to read, because they have no
    data.
    """
    return f"{commits:,} commits of maintenance only"


def _probe(catalog: StreamCatalog, *, has_data: bool) -> None:
    if catalog.probe_stream("s").may_have_data is not has_data:
        raise AssertionError(f"expected data: {has_data}")


def _rounds(work: Callable[[], object]) -> Timing:
    return timed_without_spark(work, ROUNDS)


def _long_log(
    spark: SparkSession, root: Path, commits: int, *, is_maintenance: bool = False
) -> None:
    """Make a table with that many commits after a stream's offset. One real INSERT or OPTIMIZE is
    repeated with other file names and versions. The files themselves do not exist, and nothing here
    opens them.
    """
    table = create_table(spark, root / "t", "id BIGINT, n BIGINT", {ROW_TRACKING: True})
    engine = Engine(spark, str(root / "state"))
    insert = f"INSERT INTO {table} SELECT id, id FROM range(0, 1000, 1, 1)"
    if is_maintenance:
        for _ in range(2):
            spark.sql(insert)
    stream = engine.create_stream("s", on_table=str(root / "t"))
    spark.sql(f"OPTIMIZE {table}" if is_maintenance else insert)
    log = root / "t/_delta_log"
    first = stream.offset.version + 1
    lines = (log / f"{first:020d}.json").read_text(encoding="utf-8").splitlines()
    # Each OPTIMIZE rewrites the one file that the one before it has left.
    actions = {next(iter(action)): action for action in map(json.loads, lines)}.values()
    for version in range(first + 1, first + commits):
        text = "\n".join(json.dumps(_moved(action, version, first)) for action in actions)
        (log / f"{version:020d}.json").write_text(text, encoding="utf-8")


def _moved(action: dict[str, dict[str, object]], version: int, first: int) -> dict[str, object]:
    ((kind, fields),) = action.items()
    rows = (version - first) * 1000
    if kind == "add":
        moved = {"baseRowId": rows, "defaultRowCommitVersion": version}
        return {kind: fields | moved | {"path": _file_name(version)}}
    if kind == "remove":
        return {kind: fields | {"path": _file_name(version - 1)}}
    if kind == "domainMetadata":
        return {kind: fields | {"configuration": json.dumps({"rowIdHighWaterMark": rows + 999})}}
    return dict(action)


def _file_name(version: int) -> str:
    return f"part-00000-{uuid.UUID(int=version)}-c000.snappy.parquet"


def _folding(root: Path, group: str, patience: Patience) -> Iterator[Row]:
    """Plan the change set in a new process, whose peak memory is reported too."""
    command = [sys.executable, "-m", "benchmarks.checks", str(root / "state")]
    found = []
    for _ in range(patience.repeats):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    seconds = tuple(round(each["seconds"], 4) for each in found)
    yield Row(group, "plan of the change set", Timing(seconds))
    peak = max(each["peak_bytes"] for each in found)
    yield Row(group, "plan of the change set, memory added", None, peak)


def _fold(state: str) -> dict[str, float]:
    before = memory("VmRSS")
    begun = time.perf_counter()
    span = SourceLog(Files()).range(StreamCatalog(state).get_stream("s"))
    plan_difference(span.commits, [Layout.of(span.end.metadata)])
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "peak_bytes": memory("VmHWM") - before}


def memory(kind: str, process: int | str = "self") -> int:
    """Bytes of this process, or of another one: ``VmRSS`` now, ``VmHWM`` at its peak."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))


def _make_transitions(state: str, template: Stream, transitions: int) -> None:
    """Create streams like ``template`` and move them in turn."""
    registry = Registry(state)
    new = [
        replace(template, name=f"s{number}", stream_id=str(uuid.uuid4()), sequence=0)
        for number in range(1, STREAMS)
    ]
    made = [Change(stream, Transition.CREATED) for stream in new]
    streams = [template, *registry.transact(registry.snapshot(), made, actor="benchmark")]
    for _ in range(STREAMS, transitions, STREAMS):
        snapshot = registry.snapshot()
        for begin in range(0, STREAMS, TOGETHER):
            some = streams[begin : begin + TOGETHER]
            moved = [Change(stream, Transition.ADVANCED) for stream in some]
            found = registry.transact(snapshot, moved, actor="benchmark")
            streams[begin : begin + TOGETHER] = found


if __name__ == "__main__":
    print(json.dumps(_fold(sys.argv[1])))
