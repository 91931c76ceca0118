"""Two drivers, each a JVM of its own, write one version of a log on S3 at one moment."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import fsspec
import pytest
from cdc_stack.local_stack import LocalStack
from cdc_stack.settings import BUCKET
from driver_processes import Driver, DriverError, drivers, race

from airflow_provider_cdc.engine import log_store
from airflow_provider_cdc.engine.storage.files.store_options import fsspec_options

DELTAS_OWN = "io.delta.storage.S3SingleDriverLogStore"
RACES = 200
INSERTS = 15


@dataclass(frozen=True)
class Pair:
    """Two drivers with the same settings."""

    drivers: list[Driver]
    log_store: str
    stack: LocalStack

    def lost(self, races: int) -> int:
        """How many writes reported success, of which no file holds the content."""
        files = fsspec.filesystem("s3", **fsspec_options(self.stack.storage_options, "s3"))
        folder = f"{BUCKET}/{uuid.uuid4().hex}/_delta_log"
        lost = 0
        for version in range(races):
            name = f"{folder}/{version:020d}.json"
            contents = [json.dumps({"driver": number, "id": uuid.uuid4().hex}) for number in (0, 1)]
            arguments = [(self.log_store, f"s3a://{name}", content) for content in contents]
            results = race(self.drivers, "write_log_file", arguments)
            written = [
                content
                for content, result in zip(contents, results, strict=True)
                if not isinstance(result, DriverError)
            ]
            refused = [result for result in results if isinstance(result, DriverError)]
            assert all("FileAlreadyExistsException" in str(error) for error in refused)
            kept = files.cat_file(name).decode()
            assert kept.strip() in written
            lost += len(written) - 1
        return lost


@pytest.fixture(
    params=[
        pytest.param((DELTAS_OWN, {}), id="delta's own store"),
        pytest.param(
            (DELTAS_OWN, {"spark.hadoop.fs.s3a.performance.flags": "create"}),
            id="delta's own store, flag create",
        ),
        pytest.param((log_store.CLASS, {}), id="conditional put"),
    ],
    scope="module",
)
def pair(
    request: pytest.FixtureRequest, store: LocalStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    name, settings = request.param
    chosen = {"spark.delta.logStore.s3a.impl": name, **settings}
    settings = {**store.driver_settings(), **chosen}
    with drivers(2, settings, tmp_path_factory.mktemp("drivers")) as started:
        yield Pair(started, name, store)


@pytest.mark.in_ci("delta's own store", "conditional put")
def test_two_drivers_that_write_one_version_lose_none_by_conditional_put(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = pair.lost(RACES)

    with capsys.disabled():
        print(f"\n{pair.log_store}: {lost} of {RACES} races lost a version")
    if pair.log_store == log_store.CLASS:
        assert lost == 0
    else:
        # Otherwise the races prove nothing.
        assert lost > 0


@pytest.mark.in_ci("conditional put")
def test_inserts_of_two_drivers_at_once_all_stay_by_conditional_put(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    table = f"delta.`s3a://{BUCKET}/{uuid.uuid4().hex}`"
    pair.drivers[0].call("sql", f"CREATE TABLE {table} (driver INT, n INT) USING delta")
    for n in range(INSERTS):
        statements = [[f"INSERT INTO {table} VALUES ({driver}, {n})"] for driver in (0, 1)]
        assert race(pair.drivers, "sql", statements) == [[], []]

    ((rows,),) = pair.drivers[0].call("sql", f"SELECT count(*) FROM {table}")

    with capsys.disabled():
        print(f"\n{pair.log_store}: {2 * INSERTS - rows} of {2 * INSERTS} rows are lost")
    if pair.log_store == log_store.CLASS:
        assert rows == 2 * INSERTS
