"""A demo that gets signals to end, one or several, ends the processes that it started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, signal, sys
from flights_demo.demo import end_on_signal

end_on_signal()
try:
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    signal.pause()
except KeyboardInterrupt:
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
    print("ended")
"""


@pytest.mark.parametrize("first", ["SIGTERM", "SIGINT"])
def test_further_signals_do_not_interrupt_the_end_of_the_demo(first: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, first],
        cwd=ROOT / "dags",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
