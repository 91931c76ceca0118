"""A driver of its own JVM that runs what its standard input says, a line at a time.

``python commanded_driver.py SETTINGS.json``; each line is a JSON object with the name of a function
of this module, its arguments, and the time to begin, in seconds of the epoch. Each answer is one
line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine


def sql(spark: SparkSession, statement: str) -> list[list[Any]]:
    """The rows of a statement."""
    return [list(row) for row in spark.sql(statement).collect()]


def write_log_file(spark: SparkSession, log_store: str, path: str, content: str) -> None:
    """Write a file of a log if it does not exist, through a log store of Delta."""
    jvm = spark.sparkContext._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    store: Any = jvm
    for part in log_store.split("."):
        store = getattr(store, part)
    lines = jvm.java.util.ArrayList()
    lines.add(content)
    store(conf).write(jvm.org.apache.hadoop.fs.Path(path), lines.iterator(), False, conf)


def create_stream(
    spark: SparkSession, state: str, options: dict[str, str], name: str, table: str
) -> None:
    """Create a stream on a table."""
    Engine(spark, state, storage_options=options).create_stream(name, on_table=table)


def consume(
    spark: SparkSession, state: str, options: dict[str, str], statements: list[str], consumer: str
) -> str:
    """Consume streams; returns what the consumption came to, as text."""
    engine = Engine(spark, state, storage_options=options)
    return str(engine.consume(statements, consumer=consumer))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (sql, write_log_file, create_stream, consume)
}


def main() -> None:
    builder = SparkSession.builder.appName("commanded")
    for name, value in json.loads(Path(sys.argv[1]).read_text()).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(json.dumps({"result": "ready"}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        while time.time() < command.get("at", 0):
            pass
        try:
            answer = {"result": FUNCTIONS[command["function"]](spark, *command["arguments"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
