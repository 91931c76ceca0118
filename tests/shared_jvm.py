"""One JVM for all processes of a test run: it loads and compiles each class only once.

``python tests/shared_jvm.py COMMAND...`` runs a command whose processes find the JVM by their
environment. Sessions in it are classic ones, or remote ones of its Spark Connect server. If the
environment names a JVM already, the command runs on that one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spark_settings import ALONE, LATE_SECOND_COMPILER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_ADDRESS = "TESTS_CONNECT_ADDRESS"
_NAMES = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", CONNECT_ADDRESS)
# Test processes take these out of their environment: drivers that they start have JVMs of their
# own.
SHARED = {name: os.environ.pop(name) for name in _NAMES if name in os.environ}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOOPBACK = "127.0.0.1"


def session_builder(warehouse: Path) -> SparkSession.Builder:
    """The builder of a session of tests, with Delta."""
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in ALONE.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", warehouse.as_uri())
    return configure_spark_with_delta_pip(builder)


@contextmanager
def shared_jvm() -> Iterator[dict[str, str]]:
    """A JVM with a Spark context and a Connect server, and the variables by which processes find
    it. It ends with this context, and with this process.
    """
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="warehouse-") as warehouse:
        settings = session_builder(Path(warehouse))._options | {
            # The states of the tables of two processes, for an hour.
            "spark.driver.memory": "5g",
            _JAVA_OPTIONS: f"{ALONE[_JAVA_OPTIONS]} {LATE_SECOND_COMPILER}",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": _LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
        }
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        with tempfile.TemporaryFile("w+") as log:
            gateway = launch_gateway(conf, {"stdout": log, "stderr": subprocess.STDOUT})
            address = gateway.gateway_parameters
            values = (str(address.port), address.auth_token, f"sc://{_LOOPBACK}:{port}")
            try:
                gateway.jvm.org.apache.spark.SparkContext.getOrCreate().setLogLevel("ERROR")
                gateway.close()
                yield dict(zip(_NAMES, values, strict=True))
            finally:
                if gateway.proc.poll() is not None:
                    log.seek(0)
                    print(f"the JVM ended early:\n{log.read()[-10_000:]}")
                # The JVM lives as long as its standard input.
                gateway.proc.stdin.close()
                gateway.proc.wait(60)


def shared_session() -> SparkSession:
    """A session of this process alone in the JVM that :data:`SHARED` names."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ.update(SHARED)
    try:
        gateway = launch_gateway()
    finally:
        for name in SHARED:
            del os.environ[name]
    jvm = gateway.jvm
    # The settings are those of the JVM's command line.
    context = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    python_context = SparkContext(
        gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf())
    )
    builder = jvm.org.apache.spark.sql.classic.SparkSession.builder()
    return SparkSession(python_context, builder.getOrCreate().newSession())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        return int(probe.getsockname()[1])


def main(command: list[str]) -> int:
    """Run ``command`` beside a JVM, and return its exit code."""
    if SHARED:
        return subprocess.run(command, env=os.environ | SHARED, check=False).returncode
    with shared_jvm() as names:
        return subprocess.run(command, env=os.environ | names, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
