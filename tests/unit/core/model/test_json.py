"""Objects of the domain as JSON."""

from __future__ import annotations

import subprocess
import sys

# Fresh dataclasses each time: only the first reading of a kind matters.
FIRST_READINGS = """
import sys
import threading
from dataclasses import make_dataclass

from airflow_provider_cdc.engine.core.model.json_text import from_json

THREADS = 8


def read(text, kind, everybody, found):
    everybody.wait()
    found.append(from_json(text, kind))


sys.setswitchinterval(1e-6)
for _ in range(40):
    inner = make_dataclass("Inner", [(f"f{n}", int) for n in range(10)], frozen=True)
    fields = [(f"f{n}", inner) for n in range(10)]
    kind = make_dataclass("Outer", fields, frozen=True)
    value = kind(*[inner(*range(10))] * 10)
    part = "{" + ",".join(f'"f{n}":{n}' for n in range(10)) + "}"
    text = "{" + ",".join(f'"f{n}":{part}' for n in range(10)) + "}"
    everybody = threading.Barrier(THREADS)
    found = []
    arguments = (text, kind, everybody, found)
    threads = [threading.Thread(target=read, args=arguments) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [value] * THREADS, found
"""


def test_threads_may_read_their_first_value_of_a_kind_at_once() -> None:
    """The test runs in a process of its own, because the failure is a crash of the interpreter."""
    ended = subprocess.run(
        [sys.executable, "-c", FIRST_READINGS], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")
