"""What ``consume`` costs, compared with the bare statement, if there is almost no data.

``python -m benchmarks.fixed_cost REQUEST`` measures it over Spark Connect, because a process with a
classic session cannot have a remote one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.core.model.json_text import to_json
from airflow_provider_cdc.engine.spark.session.idempotent_writes import idempotent_write
from airflow_provider_cdc.jobs import entry_point
from airflow_provider_cdc.jobs.answers import read_answer
from airflow_provider_cdc.jobs.model import ConsumeStream, Request

from . import bare_statement, processes, session
from .results import Row
from .tables import ROW_TRACKING, Workshop, create_table
from .timing import Patience, timed

IN_SESSION = "one changed row of 1,000, in a warm session"
OVER_CONNECT = "one changed row of 1,000, over Spark Connect"
SUBMITTED = "one changed row of 1,000, by spark-submit"
OF_SOURCE, OF_CHANGES = "bare statement, of the source", "bare statement, of the change set"
# Delta recommends these for writes that are repeated: it has to read the log's transactions.
AT_MOST_ONCE = "bare statement, of the change set, with Delta's transaction identifiers"
CONSUME = "consume"
CONSUMER = "benchmark"
CHANGED = 7
# A session is warm when the JVM has compiled what these statements run, after some rounds.
WARMING_ROUNDS = 6
WARM_ROUNDS = 9


class Ledger:
    """A small source with one changed row, a stream before the change, and an empty target."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        columns = "id BIGINT, n BIGINT"
        self.source = create_table(spark, root / "source", columns, {ROW_TRACKING: True})
        self.target = create_table(spark, root / "target", columns, {})
        spark.sql(f"INSERT INTO {self.source} SELECT id, id FROM range(1000)")
        self.state = str(root / "state")
        self.engine = Engine(spark, self.state)
        self.engine.create_stream("s", on_table=str(root / "source"))

    @property
    def insert(self) -> str:
        """The statement up to the table that it reads."""
        return f"INSERT INTO {self.target} SELECT id, n FROM "

    @property
    def of_source(self) -> str:
        """The statement without a stream."""
        return f"{self.insert}{self.source} WHERE id = {CHANGED}"

    @property
    def of_changes(self) -> str:
        """The statement on the change set, which consumes nothing."""
        return f"{self.insert}changes"

    @property
    def of_stream(self) -> str:
        """The statement that consumes."""
        return f"{self.insert}s"

    def write_at_most_once(self) -> None:
        """Run the statement on the change set as one that may be repeated."""
        with idempotent_write(self._spark, uuid.uuid4().hex, 1):
            self._spark.sql(self.of_changes)

    def advance(self) -> None:
        """Change a row when the stream has no other change. The view ``changes`` holds what the
        stream would return.
        """
        self.engine.advance_stream("s")
        self._spark.sql(f"UPDATE {self.source} SET n = n + 1 WHERE id = {CHANGED}")
        self.engine.read_stream("s").createOrReplaceTempView("changes")


def measure(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """The fixed cost in a running session, over Spark Connect, and by spark-submit."""
    yield from in_session(spark, workshop.new_folder(), patience, IN_SESSION)
    request = {"folder": str(workshop.new_folder()), **asdict(patience)}
    found = processes.answer(sys.executable, "benchmarks.fixed_cost", request)
    yield from msgspec.json.decode(found, type=list[Row])
    yield from _submitted(spark, workshop.new_folder(), patience)


def in_session(spark: SparkSession, root: Path, patience: Patience, name: str) -> Iterator[Row]:
    """What one statement costs in a warm session."""
    ledger = Ledger(spark, root)
    ways: dict[str, Callable[[], object]] = {
        OF_SOURCE: lambda: spark.sql(ledger.of_source),
        OF_CHANGES: lambda: spark.sql(ledger.of_changes),
        AT_MOST_ONCE: ledger.write_at_most_once,
        CONSUME: lambda: ledger.engine.consume([ledger.of_stream], consumer=CONSUMER),
    }
    for _ in range(WARMING_ROUNDS if patience.is_thorough else 0):
        for work in ways.values():
            ledger.advance_stream()
            work()
    warm = replace(patience, repeats=WARM_ROUNDS) if patience.is_thorough else patience
    for way, work in ways.items():
        yield Row(name, way, timed(spark, work, warm, prepare=ledger.advance_stream))


def _submitted(spark: SparkSession, root: Path, patience: Patience) -> Iterator[Row]:
    """What one statement costs with the start of its driver."""
    ledger = Ledger(spark, root)
    ways = {
        OF_SOURCE: partial(submit, bare_statement.__file__, ledger.of_source),
        CONSUME: partial(_submit_consumption, ledger),
    }
    for way, work in ways.items():
        yield Row(SUBMITTED, way, timed(spark, work, patience, prepare=ledger.advance_stream))


def submit(application: str | None, *arguments: str) -> None:
    """Run an application by spark-submit, and wait for its end."""
    settings = session.SHARED | session.DELTA | {"spark.jars.packages": session.delta_package()}
    conf = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    command = [str(session.SPARK_SUBMIT), "--master", "local[*]", *conf, str(application)]
    done = subprocess.run(
        [*command, *arguments],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{application} ended with {done.returncode}:\n{done.stderr[-3000:]}")


def _submit_consumption(ledger: Ledger) -> None:
    consume = ConsumeStream((ledger.of_stream,), CONSUMER)
    request = Request(uuid.uuid4().hex, ledger.state, consume)
    submit(entry_point.__file__, "--request", to_json(request))
    answer = read_answer(ledger.state, request.request_id)
    if answer is None or answer.error is not None:
        raise RuntimeError(f"the job answered {answer}")


def main() -> None:
    """Run the request in the first argument, over Spark Connect."""
    request = json.loads(sys.argv[1])
    spark = session.new_remote_session(Path(request["folder"]))
    patience = Patience(request["repeats"], request["limit"])
    rows = list(in_session(spark, Path(request["folder"]), patience, OVER_CONNECT))
    spark.stop()
    Path(request["out"]).write_bytes(msgspec.json.encode(rows))


if __name__ == "__main__":
    main()
