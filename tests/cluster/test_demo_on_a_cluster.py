"""The flights demo on a cluster, as ``make demo-cluster`` runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from cdc_stack.local_stack import SECRET

# A demo of one day takes seven minutes, and twice that on a machine with other work.
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.timeout(1800),
]

ROOT = Path(__file__).parents[2]
COMPARED = re.compile(
    r"^compare: (.+): rows compared (\d+) of (\d+) expected, rows differing (\d+)$", re.MULTILINE
)
TARGETS = {
    "current_flights",
    "flight_board",
    "flights, replayed from its archive",
    "movements",
    "aircraft_history",
    "carrier_punctuality",
}
MARK = "CDC_TEST_DEMO"


class Demo:
    """A demo of one day in a process of its own.

    :param folder: for its files
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "flights_demo.cluster_demo"),
                *("--state", str(folder), "--days", "1"),
            ],
            cwd=ROOT,
            env={**_environment(), MARK: self._mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_line(self, part: str) -> None:
        """Wait until the demo has printed a line with ``part``."""
        assert self.process.stdout is not None
        printed = []
        for line in self.process.stdout:
            printed.append(line)
            if part in line:
                return
        raise AssertionError("".join(["the demo ended\n", *printed]))

    def wait_process(self, argument: str) -> psutil.Process:
        """Wait until a process with this argument runs."""
        while self.process.poll() is None:
            for process in self.processes():
                with suppress(psutil.NoSuchProcess):
                    if argument in process.cmdline():
                        return process
            time.sleep(0.2)
        raise AssertionError(self.wait_end())

    def wait_end(self) -> str:
        """Wait until the demo has ended; returns what else it printed."""
        output, _ = self.process.communicate()
        return output

    def processes(self) -> list[psutil.Process]:
        """The demo and everything that it started: all inherit its environment."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get(MARK) == self._mark:
                    found.append(process)
        return found


def _environment() -> dict[str, str]:
    path = os.pathsep.join(str(ROOT / name) for name in ("", "dags", "docker"))
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    demo = Demo(tmp_path / "demo")
    with demo.process:
        yield demo
        demo.process.terminate()


def test_demo_on_a_cluster_finds_no_row_that_differs(demo: Demo) -> None:
    output = demo.wait_end()

    assert demo.process.returncode == 0, output
    compared = {name: list(map(int, counts)) for name, *counts in COMPARED.findall(output)}
    assert compared.keys() == TARGETS
    for name, (found, expected, differing) in compared.items():
        assert (found, differing) == (expected, 0), name
        assert found > 0, name
    assert json.loads((demo.folder / "result.json").read_text())["passed"]
    assert demo.processes() == []
    logs = {file: file.read_text(errors="replace") for file in demo.folder.rglob("*.log")}
    assert any("task_id=consume" in str(file) for file in logs)
    assert [file for file, text in logs.items() if SECRET in text] == []


def test_demo_on_a_cluster_ends_its_services_at_ctrl_c(demo: Demo) -> None:
    demo.wait_line("starts Airflow")
    services = demo.processes()

    demo.process.send_signal(signal.SIGINT)

    demo.wait_end()
    assert demo.process.returncode == 130
    assert len(services) > 6
    assert demo.processes() == []


def test_demo_on_a_cluster_ends_its_services_if_a_job_fails(demo: Demo) -> None:
    demo.wait_line("makes the tables")

    demo.wait_process("flights_demo.setup").kill()

    assert "setup exited with -9" in demo.wait_end()
    assert demo.process.returncode == 1
    assert demo.processes() == []
