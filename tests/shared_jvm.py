"""One JVM for all worker processes of a test run: it loads and compiles each class only once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from subprocess import STDOUT
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
# Workers take these out of their environment: drivers that they start have JVMs of their own.
GATEWAY = {name: os.environ.pop(name) for name in (_PORT, _SECRET) if name in os.environ}


@contextmanager
def shared_jvm(settings: Mapping[str, str]) -> Iterator[None]:
    """A JVM without a Spark context. Processes that start while it runs find it by their
    environment.

    :param settings: those of the Spark context that the first of them makes
    """
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with tempfile.TemporaryFile("w+") as log:
        gateway = launch_gateway(conf, {"stdout": log, "stderr": STDOUT})
        port = gateway.gateway_parameters.port
        os.environ.update({_PORT: str(port), _SECRET: gateway.gateway_parameters.auth_token})
        gateway.close()
        try:
            yield
        finally:
            for name in (_PORT, _SECRET):
                del os.environ[name]
            if gateway.proc.poll() is not None:
                log.seek(0)
                print(f"the JVM ended early:\n{log.read()[-10_000:]}")
            # The JVM lives as long as its standard input.
            gateway.proc.stdin.close()
            gateway.proc.wait(60)


def shared_session() -> SparkSession:
    """A session of this process alone in the JVM that :data:`GATEWAY` names."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ.update(GATEWAY)
    try:
        gateway = launch_gateway()
    finally:
        for name in GATEWAY:
            del os.environ[name]
    jvm = gateway.jvm
    # The settings are those of the JVM's command line.
    context = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    python_context = SparkContext(
        gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf())
    )
    builder = jvm.org.apache.spark.sql.classic.SparkSession.builder()
    return SparkSession(python_context, builder.getOrCreate().newSession())
