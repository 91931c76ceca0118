"""Many small streams: consumed by one Spark job, and by a job for each."""

from __future__ import annotations

import resource
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.jobs import entry_point
from airflow_provider_cdc.jobs.answers import read_answer
from airflow_provider_cdc.jobs.model import Answer, ConsumeStream, ConsumeStreams, Request, Task
from airflow_provider_cdc.jobs.requests import request_place, write_request

from .fixed_cost import submit
from .results import Row
from .tables import ROW_TRACKING, Workshop, create_table
from .timing import Patience, Timing

STREAMS = (10, 30, 100)
FEW_STREAMS = (2, 4)
SEPARATE = 5
ROWS = 1_000
AT_ONCE = (1, 2, 4, 8)
ONE_JOB = "consume a change of each stream in one job, 4 at once"
OF_PARALLELISM = STREAMS[1]
BY_PARALLELISM = f"consume a change of each of {OF_PARALLELISM} streams in one job"
PROCESSOR = "processor time"
SEPARATELY = f"consume a change of each of {SEPARATE} streams, a job for each"
PER_STREAM = "a stream, on average"


def together(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """One job by spark-submit, of growing numbers of streams."""
    counts = STREAMS if patience.is_thorough else FEW_STREAMS
    root = _made(spark, workshop, counts[-1])
    for count in counts:
        yield from _rows(ONE_JOB, f"{count:,} streams", root, [_together(count, 4)])
    shutil.rmtree(root)


def at_once(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """One job of some streams, with more and more of them at once."""
    count = OF_PARALLELISM if patience.is_thorough else FEW_STREAMS[0]
    root = _made(spark, workshop, count)
    for number in AT_ONCE if patience.is_thorough else AT_ONCE[:1]:
        yield from _rows(BY_PARALLELISM, f"{number} at once", root, [_together(count, number)])
    shutil.rmtree(root)


def separately(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """A job by spark-submit for each of a few streams."""
    count = SEPARATE if patience.is_thorough else 1
    root = _made(spark, workshop, count)
    yield from _rows(SEPARATELY, PER_STREAM, root, [_consume(number) for number in range(count)])
    shutil.rmtree(root)


def _rows(
    workload: str, way: str, root: Path, tasks: Sequence[ConsumeStream | ConsumeStreams]
) -> Iterator[Row]:
    """The seconds and the processor time of a job. Of several jobs, the mean."""
    seconds, processor = _timed(root, tasks)
    yield Row(workload, way, Timing((round(seconds / len(tasks), 4),)))
    yield Row(f"{workload}, {PROCESSOR}", way, Timing((round(processor / len(tasks), 4),)))


def _made(spark: SparkSession, workshop: Workshop, count: int) -> Path:
    """The folder of streams with one change each. All tables are copies of one, with ids of their
    own.
    """
    root = workshop.new_folder()
    live, columns = root / "live", "id BIGINT, n BIGINT"
    source = create_table(spark, root / "source", columns, {ROW_TRACKING: True})
    create_table(spark, root / "target", columns, {})
    spark.sql(f"INSERT INTO {source} SELECT id, id FROM range(0, {ROWS}, 1, 1)")
    engine = Engine(spark, str(live / "state"))
    for number in range(count):
        _copy(root / "source", live / f"s{number}")
        _copy(root / "target", live / f"t{number}")
        engine.create_stream(f"s{number}", on_table=str(live / f"s{number}"))
    spark.sql(f"UPDATE {source} SET n = -1 WHERE id = 7")
    for number in range(count):
        shutil.copytree(root / "source", live / f"s{number}", dirs_exist_ok=True, ignore=_log)
        newest = max((root / "source/_delta_log").glob("*.json"))
        shutil.copy(newest, live / f"s{number}/_delta_log")
    live.rename(root / "template")
    return root


def _log(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "_delta_log"]


def _copy(table: Path, place: Path) -> None:
    shutil.copytree(table, place)
    first = place / f"_delta_log/{0:020d}.json"
    text = first.read_text(encoding="utf-8")
    begin = text.index('"metaData":{"id":"') + len('"metaData":{"id":"')
    first.write_text(text[:begin] + str(uuid.uuid4()) + text[text.index('"', begin) :])
    for checksum in place.glob("_delta_log/*.crc"):
        checksum.unlink()


def _consume(number: int) -> ConsumeStream:
    """A consumption whose tables are in the folder that each job starts with."""
    statement = f"INSERT INTO delta.`{{live}}/t{number}` SELECT id, n FROM s{number}"
    return ConsumeStream((statement,), f"benchmark/s{number}", streams=(f"s{number}",))


def _together(count: int, at_once: int) -> ConsumeStreams:
    return ConsumeStreams(tuple(map(_consume, range(count))), at_once)


def _timed(root: Path, tasks: Sequence[ConsumeStream | ConsumeStreams]) -> tuple[float, float]:
    """The seconds of ``tasks``, one job after the other, from streams that have a change each, and
    the processor time of their processes.
    """
    live = root / "live"
    shutil.rmtree(live, ignore_errors=True)
    shutil.copytree(root / "template", live)
    placed = [_placed(task, live) for task in tasks]
    begun, before = time.perf_counter(), _processor_seconds()
    for task in placed:
        _run(task, live)
    return time.perf_counter() - begun, _processor_seconds() - before


def _processor_seconds() -> float:
    """What the processes have taken that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _placed(task: ConsumeStream | ConsumeStreams, live: Path) -> Task:
    if isinstance(task, ConsumeStreams):
        each = (_placed_one(one, live) for one in task.consumptions)
        return ConsumeStreams(tuple(each), task.parallelism)
    return _placed_one(task, live)


def _placed_one(task: ConsumeStream, live: Path) -> ConsumeStream:
    texts = tuple(text.format(live=live) for text in task.statements)
    return ConsumeStream(texts, task.consumer, streams=task.streams)


def _run(task: Task, live: Path) -> None:
    request = Request(uuid.uuid4().hex, str(live / "state"), task)
    write_request(request)
    submit(entry_point.__file__, entry_point.REQUEST_FILE, request_place(request))
    _check(task, read_answer(request.state, request.request_id))


def _check(task: Task, answer: Answer | None) -> None:
    if answer is None or answer.error is not None:
        raise AssertionError(f"the job answered {answer}")
    if isinstance(task, ConsumeStreams):
        outcomes = [each.outcome for each in answer.consumptions]
        expected = len(task.consumptions)
    else:
        outcomes, expected = [answer.outcome], 1
    done = [each for each in outcomes if each and each.streams[0].rows["updated"] == 1]
    if len(done) != expected:
        raise AssertionError(f"{len(done)} of {expected} streams were consumed: {answer}")
