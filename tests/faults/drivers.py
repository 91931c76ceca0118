"""Driver processes that tests start, stop and kill, and the tables that they use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from spark_settings import SHORT_LIVED
from stream_lab import StreamLab
from table_copies import copy_later_commits, copy_tables

from airflow_provider_cdc.engine import ProtocolPoint
from airflow_provider_cdc.engine.core.model.stream import Phase

SCRIPT = Path(__file__).with_name("driver.py")
ROOT = SCRIPT.parents[2]
LOG = "INSERT INTO {log} SELECT id, v, METADATA$ACTION, METADATA$ISUPDATE FROM s"
SUMS = """
    MERGE INTO {sums} t USING (
        SELECT id % 2 AS k, sum(IF(METADATA$ACTION = 'INSERT', v, -v)) AS d FROM s GROUP BY id % 2
    ) c ON t.k = c.k
    WHEN MATCHED THEN UPDATE SET total = t.total + c.d
    WHEN NOT MATCHED THEN INSERT (k, total) VALUES (c.k, c.d)
"""
# The limit for a driver on a busy machine; on an idle one it takes about 15 seconds.
DRIVER_SECONDS = 600
# If either statement runs twice or not at all, its target shows it.
STATEMENTS = (LOG, SUMS)
CHANGES = (
    (1, 100, "DELETE", True),
    (1, 101, "INSERT", True),
    (2, 200, "DELETE", False),
    (4, 400, "INSERT", False),
    (5, 500, "INSERT", False),
)
SUMS_BEFORE = {0: 1000, 1: 2000}

Point = tuple[ProtocolPoint, int | None]


class Site(StreamLab):
    """Source, targets and stream of one scenario, with the same changes to consume in each."""

    def check(self) -> None:
        """Assert that every change arrived exactly once, and that nothing is open."""
        log = self.rows("log")
        expected = sorted(self.initial_log() + list(CHANGES), key=repr)
        assert log == expected, f"lost {minus(expected, log)}, doubled {minus(log, expected)}"
        sums = {0: SUMS_BEFORE[0] + 400 - 200, 1: SUMS_BEFORE[1] + 1 + 500}
        assert dict(self.rows("sums")) == sums
        stream = self.engine._parts.catalog.get_stream("s")
        assert stream.phase is Phase.IDLE
        assert stream.offset.version == self.version("src")

    @staticmethod
    def initial_log() -> list[tuple[Any, ...]]:
        return [(0, 0, "kept", False)]

    def texts(self, statements: Iterable[str] = STATEMENTS) -> list[str]:
        return [self.text(statement) for statement in statements]


def selected_points(request: pytest.FixtureRequest) -> list[Point]:
    """The points of the tests of a module that this run selects, each once."""
    found = (item for item in request.session.items if item.module is request.module)
    return list(dict.fromkeys(item.callspec.params["point"] for item in found))


def minus(left: list[Any], right: list[Any]) -> list[Any]:
    return sorted((Counter(left) - Counter(right)).elements(), key=repr)


def build_template(site: Site) -> None:
    """The tables that every site is a copy of."""
    site.make("src", "id INT, v INT", properties="'delta.enableRowTracking' = 'true'")
    site.make("log", "id INT, v INT, action STRING, is_update BOOLEAN")
    site.make("sums", "k INT, total BIGINT")
    site.sql(
        "INSERT INTO {src} VALUES (1, 100), (2, 200), (3, 300)",
        "UPDATE {src} SET v = 101 WHERE id = 1",
        "DELETE FROM {src} WHERE id = 2",
        "INSERT INTO {src} VALUES (4, 400), (5, 500)",
        "INSERT INTO {log} VALUES (0, 0, 'kept', false)",
        "INSERT INTO {sums} VALUES (0, 1000), (1, 2000)",
    )


def copy_site(template: Site, root: Path) -> Site:
    """A site of its own: the stream is at the source's version 1, the changes come after it."""
    copy_tables(template.root, root, {"src": 1, "log": 1, "sums": 1})
    site = Site(template.spark, root)
    site.engine.create_stream("s", on_table=site.path("src"))
    copy_later_commits(template.root, root, "src", 4)
    return site


@dataclass(frozen=True, slots=True)
class Order:
    """The work of a driver.

    The driver consumes all ``sites`` at once, each in a thread. Once each of them that has a point
    has reached it, the driver is killed with its process group if ``is_killed``, and otherwise
    waits for ``go``. With ``waits`` it starts only at ``go``.
    """

    sites: list[dict[str, Any]]
    configuration: Mapping[str, str]
    is_killed: bool = False
    waits: bool = False


@dataclass
class Driver:
    """A driver process in a process group of its own."""

    order: Order
    folder: Path
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "stderr").open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), json.dumps(asdict(self.order))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"},
                process_group=0,
            )

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the driver and its JVM."""
        os.killpg(self.process.pid, number)

    def go(self) -> None:
        """Let a waiting driver continue."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        """The next line that the driver prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver ended: {self.errors()}"
        return dict(json.loads(line))

    def end(self) -> list[dict[str, Any]]:
        """Wait for the driver's end and return the rest of its output."""
        output, _ = self.process.communicate(timeout=DRIVER_SECONDS)
        return [json.loads(line) for line in output.splitlines()]

    def errors(self) -> str:
        return (self.folder / "stderr").read_text()[-2000:]


@contextmanager
def running(*drivers: Driver) -> Iterator[None]:
    """End all ``drivers`` at the end, even after an error."""
    try:
        yield
    finally:
        for driver in drivers:
            if driver.process.poll() is None:
                driver.send(signal.SIGKILL)
            driver.process.communicate()


class Workshop:
    """Makes the sites and drivers of a test, from one template of the tables."""

    def __init__(self, spark: SparkSession, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._template = Site(spark, folders.mktemp("template"))
        build_template(self._template)

    def site(self) -> Site:
        """Tables and a stream of their own, with the same changes to consume as any site."""
        return copy_site(self._template, self._folders.mktemp("sites") / "site")

    def driver(
        self,
        consumer: str,
        sites: Mapping[Site, Point | None],
        *,
        statements: Mapping[Site, Iterable[str]] | None = None,
        transactions: Collection[Site] = (),
        bounds: Mapping[Site, Mapping[str, int]] | None = None,
        **order: Any,
    ) -> Driver:
        """Start a driver of ``consumer`` on ``sites``, which halts once each has reached its point.

        :param statements: the statements of a site, if they are not ``STATEMENTS``
        :param transactions: the sites that run their statements one by one in a transaction
        :param bounds: how much the driver consumes at most on a site
        :param order: other fields of ``Order``
        """
        special = statements or {}
        work = [
            {
                "state": str(site.root / "state"),
                "consumer": consumer,
                "statements": site.texts(special.get(site, STATEMENTS)),
                "is_transaction": site in transactions,
                "bounds": dict((bounds or {}).get(site, {})),
                "point": point and [point[0].value, point[1]],
            }
            for site, point in sites.items()
        ]
        folder = self._folders.mktemp("driver")
        return Driver(Order(work, SHORT_LIVED, **order), folder)
