"""The flights demo on a Spark cluster, with all tables and the state folder on S3.

The services run as processes of this machine: an S3 store, Spark's master and workers, a Spark
Connect server, and PostgreSQL for Airflow. The DAGs are the same as in the other demo.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc_stack import settings
from cdc_stack.connections import variable
from cdc_stack.local_stack import local_stack

from .demo import main, say
from .places import Place
from .postgres_server import postgres_server
from .session import REMOTE, STORAGE_OPTIONS


@contextmanager
def cluster(folder: Path) -> Iterator[Place]:
    """A cluster that ends with the context; each job runs on its Spark Connect server."""
    say(f"starts S3, Spark and PostgreSQL (half a minute); their logs are in {folder}/stack/logs")
    with local_stack(folder / "stack") as stack, postgres_server() as database:
        found = stack.connections()
        say(f"tables are on s3a://{settings.BUCKET}; jobs run by {stack.connect_url}")
        yield Place(
            folder,
            f"s3a://{settings.BUCKET}/flights_demo",
            settings.STATE,
            minutes="7 or more",
            airflow={
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
                **{variable(conn_id): json.dumps(item) for conn_id, item in found.items()},
            },
            jobs={REMOTE: stack.connect_url, STORAGE_OPTIONS: json.dumps(stack.storage_options)},
            storage_options=stack.storage_options,
        )


if __name__ == "__main__":
    sys.exit(main(cluster))
