"""A separate driver process that consumes, and is killed or stopped at a point of the protocol.

Its argument is the JSON of an ``Order`` (see ``drivers.py``). It prints a JSON line for each
consumption that ended, and one whenever it waits for ``go`` on its standard input.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import CdcError, Engine, Progress


class Halt:
    """Halts the driver's consumptions that have a point, once each of them has reached its point.

    Then either the whole process group with its JVM is killed, or the consumptions wait for ``go``.
    """

    def __init__(self, parties: int, *, is_killed: bool) -> None:
        self._is_killed = is_killed
        self._everybody = threading.Barrier(parties)
        self._word = threading.Event()

    def listener(self, site: dict[str, Any]) -> Callable[[Progress], None]:
        """Stops the consumption of ``site`` at the site's point."""

        def listen(progress: Progress) -> None:
            if [progress.point.value, progress.statement_index] == site["point"]:
                self._stop()

        return listen

    def give_up(self) -> None:
        """A consumption ended without reaching its point, so the others need not wait."""
        self._everybody.abort_consumption()

    def _stop(self) -> None:
        if self._everybody.wait() == 0:
            if self._is_killed:
                os.killpg(0, signal.SIGKILL)
            wait_for_the_word()
            self._word.set()
        self._word.wait()


def wait_for_the_word() -> None:
    report(kind="waiting")
    sys.stdin.readline()


def consume(engine: Engine, site: dict[str, Any], halt: Halt) -> None:
    try:
        outcome = outcome_of(engine, site)
    except CdcError as error:
        report(kind=error.kind, message=str(error))
    except Exception as error:
        report(kind=type(error).__name__, message=str(error))
    else:
        report(kind="committed", rows=[item.rows for item in outcome.streams])
    if site["point"] is not None:
        halt.give_up()


def outcome_of(engine: Engine, site: dict[str, Any]) -> Any:
    given = {"consumer": site["consumer"], **site["bounds"]}
    if not site["is_transaction"]:
        return engine.consume(site["statements"], **given)
    with engine.transaction(**given) as transaction:
        for text in site["statements"]:
            transaction.sql(text)
    return transaction.outcome


def report(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def new_session(configuration: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("driver")
    for key, value in configuration.items():
        builder = builder.config(key, value)
    session = configure_spark_with_delta_pip(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def main() -> None:
    order = json.loads(sys.argv[1])
    spark = new_session(order["configuration"])
    pointed = [site for site in order["sites"] if site["point"] is not None]
    halt = Halt(len(pointed) or 1, is_killed=order["is_killed"])
    threads = []
    for site in order["sites"]:
        engine = Engine(spark.newSession(), site["state"], on_progress=halt.listener(site))
        threads.append(threading.Thread(target=consume, args=(engine, site, halt)))
    if order["waits"]:
        wait_for_the_word()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spark.stop()


if __name__ == "__main__":
    main()
