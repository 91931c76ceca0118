"""Starts drivers in processes of their own, and gives them commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_settings import SHORT_LIVED

SCRIPT = Path(__file__).with_name("commanded_driver.py")
_MEMORY = {"spark.driver.memory": "1g"}
# Until both drivers of a race have read their commands.
_AHEAD_SECONDS = 0.03


class DriverError(Exception):
    """The driver could not do what it was asked."""


@dataclass(frozen=True)
class Driver:
    """A driver that waits for commands."""

    process: subprocess.Popen[str]
    log: Path

    def send(self, function: str, *arguments: Any, at: float = 0) -> None:
        """Give a command, which begins at ``at``, in seconds of the epoch."""
        assert self.process.stdin is not None
        command = {"function": function, "arguments": arguments, "at": at}
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """The result of the oldest command whose answer was not read."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise DriverError(f"the driver ended: {self.log.read_text()[-3000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise DriverError(answer["error"])
        return answer["result"]

    def call(self, function: str, *arguments: Any) -> Any:
        """Give a command, and return its result."""
        self.send(function, *arguments)
        return self.answer()


def race(drivers: Sequence[Driver], function: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """Let each driver begin at one moment; returns the results, or the errors as exceptions."""
    at = time.time() + _AHEAD_SECONDS
    for driver, given in zip(drivers, arguments, strict=True):
        driver.send(function, *given, at=at)
    results: list[Any] = []
    for driver in drivers:
        try:
            results.append(driver.answer())
        except DriverError as error:
            results.append(error)
    return results


@contextmanager
def drivers(count: int, settings: Mapping[str, str], folder: Path) -> Iterator[list[Driver]]:
    """Start drivers with Delta, which end with the context."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "settings.json"
    file.write_text(json.dumps({"spark.master": "local[1]", **SHORT_LIVED, **settings, **_MEMORY}))
    with ExitStack() as stack:
        started = []
        for number in range(count):
            log = folder / f"driver-{number}.log"
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(file)],
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stack.enter_context(log.open("w")),
                text=True,
            )
            stack.callback(_end, process)
            started.append(Driver(process, log))
        for driver in started:
            driver.answer()
        yield started


def _environment() -> dict[str, str]:
    """The environment without the variables of a process that uses Spark Connect."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_REMOTE", "SPARK_CONNECT"))
    }


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
