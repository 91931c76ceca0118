"""A Spark Connect server with Delta, on the port that its argument names."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from ..session import new_session_with

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="connect-") as folder:
        settings = {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": sys.argv[1],
        }
        spark = new_session_with(Path(folder), settings)
        print("ready", flush=True)
        sys.stdin.read()
        spark.stop()
