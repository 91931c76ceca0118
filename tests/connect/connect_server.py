"""Start and end a real Spark Connect server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import pyspark
from spark_settings import ALONE

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
SPARK_LINE = ".".join(pyspark.__version__.split(".")[:2])
DELTA = f"io.delta:delta-spark_{SPARK_LINE}_2.13:{version('delta-spark')}"
CONFIGURATION = ALONE | {
    "spark.jars.packages": DELTA,
    "spark.connect.grpc.binding.address": "127.0.0.1",
}
# The guard's standard input closes when this process ends, even by a crash.
GUARD = ("sh", "-c", '("$@" </dev/null; kill -TERM 0) & read -r _; kill -TERM 0', "guard")
START_SECONDS = 200
END_SECONDS = 20


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Run a Connect server on a free port of the loopback, and return its address.

    The server has a process group of its own, which ends with this context and with this process.
    """
    port = _free_port()
    configuration = CONFIGURATION | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    settings = [item for pair in configuration.items() for item in ("--conf", "=".join(pair))]
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*GUARD, SPARK_SUBMIT, "--class", SERVER, "--master", "local[2]", *settings],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,
        )
    try:
        _wait_for(port, server, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        _end(server)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(START_SECONDS * 2):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        with suppress(subprocess.TimeoutExpired):
            code = server.wait(timeout=0.5)
            raise RuntimeError(f"the server ended with {code}:\n{log.read_text()[-3000:]}")
    raise RuntimeError(f"the server does not listen:\n{log.read_text()[-3000:]}")


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(timeout=END_SECONDS)
            return
