"""What an Airflow costs that watches streams without changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import psutil
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change

from ..results import Row
from ..tables import Workshop
from ..timing import Timing
from .lab import COLUMNS, Lab, create_table, new_lab

STREAMS = 100
NAME = f"{STREAMS} quiet streams, seconds of CPU in an hour"
WATCHED, UNWATCHED = "watched", "not watched"
_HOUR_SECONDS = 3600
# Until then each part has loaded what it needs.
_SETTLING_SECONDS = 45.0


def measure(spark: SparkSession, workshop: Workshop, seconds: float) -> Iterator[Row]:
    """The seconds of CPU in an hour of all processes of an Airflow, with and without watchers."""
    for way, file in ((UNWATCHED, "quiet_unwatched"), (WATCHED, "quiet_watched")):
        env = {
            "BENCHMARK_QUIET": str(STREAMS),
            # The parses of a file of a hundred DAGs would be most of what is measured.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        }
        with new_lab(spark, workshop.new_folder(), connect=False, env=env) as lab:
            _make_streams(lab)
            lab.add_dag("quiet", file)
            lab.server.wait_dag(f"quiet_{STREAMS - 1}")
            time.sleep(min(_SETTLING_SECONDS, seconds))
            before, begun = _cpu_seconds(lab), time.monotonic()
            time.sleep(seconds)
            spent = _cpu_seconds(lab) - before
            share = spent / (time.monotonic() - begun)
        yield Row(NAME, way, Timing((round(share * _HOUR_SECONDS, 1),)))


def _make_streams(lab: Lab) -> None:
    """Register a stream on each of the tables, at their first commits."""
    location = lab.tables / "quiet_0"
    create_table(lab.spark, location, COLUMNS, {})
    first = lab.engine.create_stream("quiet_0", on_table=str(location))
    streams = []
    for number in range(1, STREAMS):
        name = f"quiet_{number}"
        table = lab.tables / name
        (table / "_delta_log").mkdir(parents=True)
        for commit in (location / "_delta_log").glob("*.json"):
            (table / "_delta_log" / commit.name).write_bytes(commit.read_bytes())
        streams.append(_stream(first, name, str(table)))
    registry = Registry(lab.state)
    changes = [Change(stream, Transition.CREATED) for stream in streams]
    registry.transact(registry.snapshot(), changes, actor="benchmarks")


def _stream(template: Stream, name: str, location: str) -> Stream:
    (base,) = template.bases
    source = replace(base.source, name=location, location=location)
    return replace(
        template,
        name=name,
        stream_id=f"{template.stream_id}-{name}",
        sequence=0,
        bases=(replace(base, source=source),),
    )


def _cpu_seconds(lab: Lab) -> float:
    """The seconds of CPU of all processes of Airflow, including those that ended."""
    total = 0.0
    for part in lab.server.processes():
        for process in (part, *part.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total
