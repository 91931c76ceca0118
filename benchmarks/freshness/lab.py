"""What the variants share: the tables, an Airflow on PostgreSQL, and a Spark Connect server."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
from flights_demo.airflow_server import AirflowServer, free_port
from flights_demo.postgres_server import postgres_server
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine

from ..processes import ROOT
from ..session import DELTA, SPARK_SUBMIT, delta_package
from ..tables import ROW_TRACKING, create_table

SUBMIT, CONNECT = "submit", "connect"
COLUMNS = "id BIGINT, name STRING"
MERGE = (
    "MERGE INTO delta.`{tables}/{{name}}_copy` AS target USING {{changes}} AS change"
    " ON target.id = change.id WHEN MATCHED THEN UPDATE SET name = change.name"
    " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (change.id, change.name)"
)
_DAGS = Path(__file__).parent / "dags"
_DRIVER_MEMORY = "1g"
# With Spark's own settings a statement on a small table takes tens of seconds.
FEW_TASKS = {"spark.sql.shuffle.partitions": "4", "spark.databricks.delta.snapshotPartitions": "2"}


@dataclass(frozen=True)
class Lab:
    """A running Airflow, and where its tables are. The files of its DAGs are copied when they are
    needed.

    :param spark: the session of the writer, in a JVM of its own
    """

    spark: SparkSession
    server: AirflowServer
    tables: Path
    state: str

    def make_tables(self, name: str) -> None:
        """Make an empty source with a stream, and an empty target beside it."""
        for table in (name, f"{name}_copy"):
            create_table(self.spark, self.tables / table, COLUMNS, {ROW_TRACKING: True})
        self.engine.create_stream(name, on_table=str(self.tables / name))

    @property
    def engine(self) -> Engine:
        return Engine(self.spark, self.state)

    def merge(self, name: str, changes: str) -> str:
        """The statement that applies changes to the target beside a source."""
        return MERGE.format(tables=self.tables).format(name=name, changes=changes)

    def add_dag(self, file: str, name: str) -> None:
        """Add a copy of a file of DAGs under another name, and wait until Airflow parsed it."""
        draft = self.tables / f"{name}.py"
        draft.write_text((_DAGS / f"{file}.py").read_text(encoding="utf-8"), encoding="utf-8")
        draft.rename(self.server.dags_folder / f"{name}.py")

    def remove_dag(self, name: str) -> None:
        """Pause a DAG, and remove its file."""
        self.server.api("PATCH", f"/dags/{name}?update_mask=is_paused", {"is_paused": True})
        (self.server.dags_folder / f"{name}.py").unlink()

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of Airflow's own database."""
        url = self.server.env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute(text, values)
            return cursor.fetchall()


@contextmanager
def new_lab(
    spark: SparkSession, folder: Path, *, connect: bool = True, env: Mapping[str, str] | None = None
) -> Iterator[Lab]:
    """Run an Airflow with its own PostgreSQL and, if ``connect``, with a Spark Connect server.

    :param env: further environment variables of Airflow
    """
    tables, state, dags = folder / "tables", (folder / "state").as_uri(), folder / "dags"
    for each in (tables, dags):
        each.mkdir(parents=True)
    with ExitStack() as stack:
        port = stack.enter_context(_connect_server()) if connect else 0
        postgres = stack.enter_context(postgres_server())
        server = AirflowServer(
            home=folder / "home",
            dags_folder=dags,
            env={
                **_connections(state, port),
                "BENCHMARK_MERGE": MERGE.format(tables=tables),
                "BENCHMARK_TIMER": json.dumps(_timer(tables)),
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres,
                # What a shell sets for the JVMs of tests is no part of what is measured.
                "SPARK_SUBMIT_OPTS": "",
                **(env or {}),
            },
        )
        stack.enter_context(server)
        yield Lab(spark, server, tables, state)


def _connections(state: str, port: int) -> dict[str, str]:
    found: dict[str, dict[str, Any]] = {
        "SPARK_DEFAULT": {"conn_type": "spark", "host": "local[2]"},
        "SPARK_CONNECT": {"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": port},
        "CDC_SUBMIT": {
            "conn_type": "cdc",
            "extra": {"state": state, "driver_memory": _DRIVER_MEMORY},
        },
        "CDC_CONNECT": {
            "conn_type": "cdc",
            "extra": {"state": state, "spark_conn_id": "spark_connect"},
        },
    }
    return {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in found.items()}


def _timer(tables: Path) -> dict[str, Any]:
    return {
        "application": str(Path(__file__).parent / "timer_job.py"),
        "conf": {
            **DELTA,
            **FEW_TASKS,
            "spark.driver.memory": _DRIVER_MEMORY,
            "spark.executorEnv.BENCHMARK_TABLES": str(tables),
            "spark.pyspark.driver.python": sys.executable,
            "spark.benchmark.tables": str(tables),
        },
        "packages": delta_package(),
        "binary": str(SPARK_SUBMIT),
    }


@contextmanager
def _connect_server() -> Iterator[int]:
    port = free_port()
    with running("benchmarks.freshness.connect_server", str(port)):
        yield port


@contextmanager
def running(module: str, *arguments: str) -> Iterator[None]:
    """Run a module as a process of its own, which ends when its standard input does. The block
    begins when the process has written a line.

    :raises RuntimeError: it ended before that
    """
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                log.seek(0)
                raise RuntimeError(f"{module} ended:\n{log.read()[-3000:]}")
            yield
        finally:
            process.stdin.close()
            try:
                process.wait(60)
            finally:
                process.kill()
                process.stdout.close()
