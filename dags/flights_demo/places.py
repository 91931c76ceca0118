"""Where the demo runs: its folders, its environment, and this machine as such a place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the demo keeps its files and tables, and how its processes reach them.

    :param folder: on this machine, for logs, the result and Airflow's home
    :param warehouse: the folder of the tables, a path or URI
    :param cdc_state: the URI of the state folder of the engine
    :param minutes: how long the demo takes there on two cores, in words
    :param airflow: Airflow's variables of the environment, with its connections
    :param jobs: further variables for the demo's own Spark jobs
    :param storage_options: how to reach the state folder
    """

    folder: Path
    warehouse: str
    cdc_state: str
    minutes: str
    airflow: Mapping[str, str]
    jobs: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def this_machine(folder: Path) -> Iterator[Place]:
    """Everything below ``folder``; each job is a local Spark of its own."""
    state = (folder / "cdc").as_uri()
    connections = {
        "AIRFLOW_CONN_SPARK_DEFAULT": {"conn_type": "spark", "host": "local[2]"},
        "AIRFLOW_CONN_CDC_DEFAULT": {
            "conn_type": "cdc",
            "extra": {
                "state": state,
                "spark_conn_id": "spark_default",
                "conf": _LOCAL,
                "driver_memory": "2g",
            },
        },
    }
    airflow = {name: json.dumps(value) for name, value in connections.items()}
    yield Place(folder, str(folder / "warehouse"), state, "10 to 20", airflow)
