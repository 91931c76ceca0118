"""A source of 100,000,000 rows in 2,000 files with 1,000 commits, read by two workers.

``python -m benchmarks.large_source REQUEST`` measures in a process of its own: a driver whose
executors run on two workers of a Spark cluster. Driver and workers share the disk.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_stack.local_stack import local_stack
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.storage.delta.table_snapshots import newest_snapshot
from airflow_provider_cdc.engine.storage.files.stores import Files

from . import processes
from .checks import memory
from .results import Row
from .session import DELTA
from .tables import ROW_TRACKING, VECTORS, Workshop, append, create_table, newest_version
from .timing import Patience, Timing, read_all

COLUMNS = "id BIGINT, n BIGINT, price DOUBLE, name STRING, at TIMESTAMP"
FILES_OF_A_COMMIT = 2
PICKED = 1_000
TABLE = "two workers: the whole source"
UPDATES = "two workers: 0.1 % of the rows of every file updated"
PLAIN_READ = "plain read of the table"
HAS_DATA = "check whether the stream has data"
READ = "read the change set"
BY_HAND = "INSERT of the same rows, by hand"
CONSUME = "consume"
LONG_SECONDS = 60
MEMORY = "two workers: memory of the driver at its peak"


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the source, and the numbers of commits that streams lag."""

    rows: int
    commits: int
    lags: tuple[int, ...]

    @classmethod
    def of(cls, patience: Patience) -> Size:
        """The size of a whole run, or of a smoke test."""
        if patience.is_thorough:
            return cls(100_000_000, 1_000, (1, 10, 100, 1_000))
        return cls(20_000, 10, (1, 10))

    @property
    def consumed(self) -> int:
        """The lag of the stream that is consumed. A copy of the whole source would fill disks."""
        return self.lags[-2]


def appended(lag: int) -> str:
    """The workload of a stream that lags that many commits, which appended rows."""
    return f"two workers: appended by {lag:,} {'commit' if lag == 1 else 'commits'}"


def measure(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """Make the source in the session ``spark``, and read it on a cluster."""
    size, root = Size.of(patience), workshop.new_folder()
    begun = time.monotonic()
    _make(spark, root, size)
    yield Row(TABLE, "make it, in this session", Timing((round(time.monotonic() - begun, 3),)))
    with local_stack(workshop.new_folder()) as stack:
        settings = {
            **stack.driver_settings(),
            # The services' own options are for tests: they keep the compiler of the JVM small.
            "spark.driver.extraJavaOptions": "",
            "spark.executor.extraJavaOptions": "",
            "spark.executor.cores": "1",
            "spark.executor.memory": "3g",
            "spark.cores.max": "2",
            "spark.driver.memory": "4g",
            "spark.ui.enabled": "false",
        }
        request = {
            "root": str(root),
            "master": stack.master,
            "settings": settings,
            "rows": size.rows,
            "commits": size.commits,
            "lags": size.lags,
            "consumed": size.consumed,
            "repeats": patience.repeats,
        }
        found = json.loads(processes.answer(sys.executable, "benchmarks.large_source", request))
    for workload, way, seconds, size_bytes, plan in found:
        timing = Timing(tuple(seconds)) if seconds else None
        yield Row(workload, way, timing, size_bytes, plan)
    shutil.rmtree(root)


def _make(spark: SparkSession, root: Path, size: Size) -> None:
    """Make the source, each commit with two files, and streams that lag."""
    location = root / "t"
    create_table(spark, location, COLUMNS, {ROW_TRACKING: True, VECTORS: True})
    begin = newest_version(spark, str(location))
    files = FILES_OF_A_COMMIT * size.commits
    # Random text of 64 letters: about 100 bytes of a row do not compress.
    append(
        spark.range(0, size.rows, 1, files).selectExpr(
            "id",
            "xxhash64(id) AS n",
            "xxhash64(id, 1) / 1e6D AS price",
            "sha2(CAST(id AS STRING), 256) AS name",
            "timestamp_micros(1700000000000000 + id * 1000) AS at",
        ),
        str(location),
    )
    _divide(location / "_delta_log", begin + 1)
    newest = begin + size.commits
    engine = Engine(spark, str(root / "state"))
    for lag in size.lags:
        engine.create_stream(f"s{lag}", on_table=str(location), at={"version": newest - lag})


def _divide(log: Path, version: int) -> None:
    """Divide the only commit of data into commits of two files each, as many writers would make
    them.
    """
    path = log / f"{version:020d}.json"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    # With its checksums: that of Hadoop has a dot before the name.
    for file in [*log.glob(f"{version:020d}*"), *log.glob(f".{version:020d}*")]:
        file.unlink()
    (info,) = (line for line in lines if "commitInfo" in line)
    (mark,) = (line for line in lines if "domainMetadata" in line)
    adds = sorted((line for line in lines if "add" in line), key=_first_row)
    shares = range(0, len(adds), FILES_OF_A_COMMIT)
    for number, start in enumerate(shares, version):
        share = adds[start : start + FILES_OF_A_COMMIT]
        for line in share:
            line["add"]["defaultRowCommitVersion"] = number
        last = share[-1]["add"]
        highest = last["baseRowId"] + json.loads(last["stats"])["numRecords"] - 1
        domain = mark["domainMetadata"] | {
            "configuration": json.dumps({"rowIdHighWaterMark": highest})
        }
        text = "\n".join(map(json.dumps, [info, *share, {"domainMetadata": domain}]))
        (log / f"{number:020d}.json").write_text(text, encoding="utf-8")


def _first_row(line: dict[str, Any]) -> int:
    found: int = line["add"]["baseRowId"]
    return found


def _measured(work: Callable[[], object], repeats: int) -> list[float]:
    """The seconds of up to ``repeats`` rounds. A round of more than a minute is the only one."""
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < LONG_SECONDS:
        begun = time.perf_counter()
        work()
        seconds.append(round(time.perf_counter() - begun, 3))
    return seconds


Figure = tuple[str, str, list[float], int, str]


def _figures(spark: SparkSession, request: Mapping[str, Any]) -> Iterator[Figure]:
    root, repeats, commits = Path(request["root"]), request["repeats"], request["commits"]
    location, engine = str(root / "t"), Engine(spark, str(root / "state"))
    table = f"delta.`{location}`"
    bytes_of_all = newest_snapshot(location, Files()).size_bytes

    def read(stream: str) -> None:
        read_all(engine.read_stream(stream))

    plain = spark.read.format("delta").load(location)
    seconds = _measured(lambda: read_all(plain), repeats)
    yield TABLE, PLAIN_READ, seconds, bytes_of_all, ""
    for lag in request["lags"]:
        stream = f"s{lag}"
        probe = _measured(lambda stream=stream: engine.stream_has_data(stream), repeats)
        yield appended(lag), HAS_DATA, probe, 0, ""
        plan = str(engine.explain_stream(stream))
        seconds = _measured(lambda stream=stream: read(stream), repeats)
        yield appended(lag), READ, seconds, bytes_of_all * lag // commits, plan
    lag = request["consumed"]
    for name in ("by_hand", "consumed"):
        create_table(spark, root / name, COLUMNS, {})
    first = request["rows"] // commits * (commits - lag)
    insert = f"INSERT INTO delta.`{root}/{{}}` SELECT id, n, price, name, at FROM {{}}"
    by_hand = insert.format("by_hand", f"{table} WHERE id >= {first}")
    consume = insert.format("consumed", f"s{lag}")
    yield appended(lag), BY_HAND, _measured(lambda: spark.sql(by_hand), 1), 0, ""
    seconds = _measured(lambda: engine.consume([consume], consumer="copy"), 1)
    yield appended(lag), CONSUME, seconds, 0, ""
    _check_equal(spark, root)
    engine.create_stream("updates", on_table=location)
    update = f"UPDATE {table} SET n = n + 1 WHERE id % {PICKED} = 7"
    yield UPDATES, "UPDATE by Spark", _measured(lambda: spark.sql(update), 1), 0, ""
    plan = str(engine.explain_stream("updates"))
    yield UPDATES, READ, _measured(lambda: read("updates"), repeats), 0, plan
    yield MEMORY, "its Python process", [], memory("VmHWM"), ""
    yield MEMORY, "its JVM", [], memory("VmHWM", _pid_of_jvm(spark)), ""


def _check_equal(spark: SparkSession, root: Path) -> None:
    """Check that the consumption wrote the same rows as the INSERT by hand."""
    text = "SELECT count(*), bit_xor(xxhash64(*)) FROM delta.`{}/{}`"
    by_hand, consumed = (
        spark.sql(text.format(root, name)).collect() for name in ("by_hand", "consumed")
    )
    if by_hand != consumed:
        raise AssertionError(f"consumed {consumed} instead of {by_hand}")


def _pid_of_jvm(spark: SparkSession) -> int:
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def main() -> None:
    """Measure what the request in the first argument names."""
    request = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(request["master"]).appName("large source")
    for key, value in {**DELTA, **request["settings"]}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        found = list(_figures(spark, request))
    finally:
        spark.stop()
    Path(request["out"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
