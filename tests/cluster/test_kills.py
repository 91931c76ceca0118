"""Parts of a cluster are killed during a consumption: nothing is lost, nothing is applied twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from cdc_stack.local_stack import LocalStack
from cdc_stack.services import WORKERS
from cluster_lab import ClusterLab
from driver_processes import Driver, DriverError, drivers
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import CdcError
from airflow_provider_cdc.engine.core.model.stream import Phase

pytestmark = pytest.mark.timeout(600)

CHANGED = 40
# Each row takes the executors so long that there is time to kill something.
ROWS_OF_WORK = 200_000
OUTAGE_SECONDS = 3
CONSUMER = "tests.kills"
LOG = (
    "INSERT INTO {log} SELECT /*+ REPARTITION(4) */ id, max(v) FROM"
    f" (SELECT s.id, s.v, sha2(CAST(w.id AS STRING), 512) AS hash FROM s"
    f" CROSS JOIN range({ROWS_OF_WORK}) w) WHERE hash > '' GROUP BY id"
)
SUM = (
    "MERGE INTO {total} t USING (SELECT sum(v) AS added FROM s) c ON TRUE"
    " WHEN MATCHED THEN UPDATE SET total = t.total + c.added"
)


@pytest.fixture
def scene(lab: ClusterLab) -> ClusterLab:
    """A stream with changes, and two targets in which a statement that runs twice shows."""
    lab.sql(
        "CREATE TABLE {src} (id INT, v INT) USING delta"
        " TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "CREATE TABLE {log} (id INT, v INT) USING delta",
        "CREATE TABLE {total} (total BIGINT) USING delta",
        "INSERT INTO {total} VALUES (0)",
    )
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql(f"INSERT INTO {{src}} SELECT CAST(id AS INT), 1 FROM range({CHANGED})")
    return lab


@pytest.fixture
def new_driver(stack: LocalStack, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Starts drivers on this machine, with executors on the cluster."""
    settings = {**stack.driver_settings(), "spark.master": stack.master}
    settings["spark.driver.extraJavaOptions"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    started = []

    def start() -> Driver:
        context = drivers(1, settings, tmp_path / f"driver-{len(started)}")
        started.append(context)
        return context.__enter__()[0]

    yield start
    for context in started:
        context.__exit__(None, None, None)


def statements(lab: ClusterLab) -> list[str]:
    return [lab.text(LOG), lab.text(SUM)]


def consume_in(driver: Driver, lab: ClusterLab) -> str:
    arguments = (lab.state, lab.stack.storage_options, statements(lab), CONSUMER)
    result: str = driver.call("consume", *arguments)
    return result


def consume_here(lab: ClusterLab) -> None:
    lab.engine.consume(statements(lab), consumer=CONSUMER)


@contextmanager
def consuming(lab: ClusterLab, consume: Callable[[], object]) -> Iterator[Future[object]]:
    """Consume in a thread. The block begins when the first statement runs on the executors."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(consume)
        deadline = time.monotonic() + 200
        while not is_reading(lab):
            assert not running.done(), f"the consumption ended before: {running.result()}"
            assert time.monotonic() < deadline, "no statement runs"
            time.sleep(0.2)
        yield running


def is_reading(lab: ClusterLab) -> bool:
    """Whether an executor has begun to read the changes, as only statements of a consumption do."""
    line = f"Reading File path: {lab.path('src')}/part-"
    logs = (log for worker in WORKERS for log in (lab.stack.folder / worker).glob("app-*/*/stderr"))
    return any(line in log.read_text(errors="replace") for log in logs)


def check(lab: ClusterLab) -> None:
    """Assert that each change arrived once, and that nothing is open."""
    assert lab.rows("log") == [(key, 1) for key in range(CHANGED)]
    assert lab.rows("total") == [(CHANGED,)]
    assert lab.changes("s") == []
    assert lab.engine.describe_stream("s").phase is Phase.IDLE


def executors_of(worker: psutil.Process) -> list[psutil.Process]:
    return [
        child
        for child in worker.children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE
        and "CoarseGrainedExecutorBackend" in " ".join(child.cmdline())
    ]


@pytest.mark.thorough
def test_executor_killed_during_a_consumption_changes_nothing(
    scene: ClusterLab, stack: LocalStack, new_driver: Callable[[], Driver]
) -> None:
    driver = new_driver()
    with consuming(scene, lambda: consume_in(driver, scene)) as running:
        killed = executors_of(stack.processes.process("spark-worker-1"))
        for executor in killed:
            executor.kill()
        running.result()

    # One of them is that of the Spark Connect server, which gets another one too.
    assert len(killed) >= 2
    check(scene)


@pytest.mark.thorough
def test_worker_killed_during_a_consumption_changes_nothing(
    scene: ClusterLab, stack: LocalStack, new_driver: Callable[[], Driver]
) -> None:
    driver = new_driver()
    with consuming(scene, lambda: consume_in(driver, scene)) as running:
        stack.processes.kill("spark-worker-2")
        try:
            running.result()
        finally:
            stack.processes.restart("spark-worker-2")

    check(scene)


def test_driver_killed_during_a_consumption_is_continued_by_the_next(
    scene: ClusterLab, new_driver: Callable[[], Driver]
) -> None:
    driver = new_driver()
    with consuming(scene, lambda: consume_in(driver, scene)) as running:
        for process in psutil.Process(driver.process.pid).children(recursive=True):
            process.kill()
        driver.process.kill()
        with pytest.raises(DriverError, match="the driver ended"):
            running.result()
    assert scene.engine.describe_stream("s").phase is not Phase.IDLE

    consume_in(new_driver(), scene)

    check(scene)


@pytest.mark.thorough
def test_connect_server_killed_during_a_consumption_is_continued_by_the_next(
    scene: ClusterLab, stack: LocalStack, connected: Callable[[], SparkSession]
) -> None:
    with consuming(scene, lambda: consume_here(scene)) as running:
        stack.processes.kill("spark-connect")
        stack.processes.restart("spark-connect")
        with pytest.raises(CdcError) as caught:
            running.result()
    assert caught.value.retryable

    scene.connect(connected())
    consume_here(scene)

    check(scene)


def test_s3_server_killed_during_a_consumption_loses_nothing(
    scene: ClusterLab, stack: LocalStack, new_driver: Callable[[], Driver]
) -> None:
    driver = new_driver()
    with consuming(scene, lambda: consume_in(driver, scene)) as running:
        stack.processes.kill("s3")
        time.sleep(OUTAGE_SECONDS)
        stack.processes.restart("s3")
        try:
            running.result()
        except DriverError:
            consume_in(driver, scene)

    check(scene)
