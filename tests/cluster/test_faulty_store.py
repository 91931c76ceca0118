"""A store that loses answers, fails or is slow while a driver commits."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from cdc_stack.local_stack import LocalStack
from cdc_stack.settings import BUCKET
from driver_processes import Driver, drivers
from faulty_proxy import Fault, Proxy, faulty_proxy

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model.stream import Phase

# With the settings of Hadoop, a store that never answers is asked for minutes.
IMPATIENT = {
    "spark.hadoop.fs.s3a.attempts.maximum": "2",
    "spark.hadoop.fs.s3a.retry.limit": "2",
    "spark.hadoop.fs.s3a.retry.interval": "50ms",
}
FAULTS = [Fault.LOST_ANSWER, Fault.UNAVAILABLE, Fault.SLOW, Fault.LOST_ANSWER, Fault.UNAVAILABLE]


@dataclass(frozen=True)
class Scene:
    """A driver that reaches its store through a faulty proxy."""

    driver: Driver
    proxy: Proxy
    store: LocalStack
    root: str

    def table(self, name: str) -> str:
        return f"delta.`{self.root}/{name}`"

    def sql(self, statement: str) -> Any:
        return self.driver.call("sql", statement)


@pytest.fixture(scope="module")
def scene(store: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with faulty_proxy(store.s3) as proxy:
        settings = {**store.driver_settings(proxy.address), **IMPATIENT}
        with drivers(1, settings, tmp_path_factory.mktemp("driver")) as (driver,):
            yield Scene(driver, proxy, store, f"s3a://{BUCKET}/{uuid.uuid4().hex}")


def test_commits_through_a_faulty_store_land_once(scene: Scene) -> None:
    table = scene.table("t")
    scene.sql(f"CREATE TABLE {table} (n INT) USING delta")
    scene.proxy.seen.clear()
    for n, fault in enumerate(FAULTS):
        scene.proxy.faults.append(fault)
        scene.sql(f"INSERT INTO {table} VALUES ({n})")

    assert scene.proxy.seen == {fault: FAULTS.count(fault) for fault in FAULTS}
    assert scene.sql(f"SELECT n FROM {table} ORDER BY n") == [[n] for n in range(len(FAULTS))]


def test_consumption_whose_commits_get_no_answer_is_applied_once(scene: Scene) -> None:
    source, target = scene.table("src"), scene.table("log")
    scene.sql(
        f"CREATE TABLE {source} (id INT) USING delta"
        " TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
    )
    scene.sql(f"CREATE TABLE {target} (id INT) USING delta")
    state, options = f"{scene.root}/state", scene.store.storage_options
    scene.driver.call("create_stream", state, options, "s", f"{scene.root}/src")
    scene.sql(f"INSERT INTO {source} VALUES (1), (2)")
    catalog = StreamCatalog(state, storage_options=options)
    consume = (state, options, [f"INSERT INTO {target} SELECT id FROM s"], "tests.faulty")

    scene.proxy.seen.clear()
    scene.proxy.hides_commits = True
    # Neither Spark nor Delta knows whether the statement was committed. The engine asks the log of
    # the target for its application id; it reaches the store directly.
    outcome = scene.driver.call("consume", *consume)
    scene.proxy.hides_commits = False

    assert scene.proxy.seen[Fault.LOST_ANSWER] > 2
    assert "consumed s through version 1 (2 inserted)" in outcome
    assert scene.sql(f"SELECT id FROM {target} ORDER BY id") == [[1], [2]]
    assert catalog.describe_stream("s").phase is Phase.IDLE
