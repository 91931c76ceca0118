"""Measures in a process of its own: with another Spark, or another kind of session."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def answer(python: str | Path, module: str, request: Mapping[str, object]) -> bytes:
    """What ``python -m module`` writes to the file ``out`` in its request, which is a JSON
    argument.

    :raises RuntimeError: the process failed
    """
    with tempfile.TemporaryDirectory(prefix="answer-") as folder:
        out = Path(folder) / "answer.json"
        command = [str(python), "-m", module, json.dumps({**request, "out": str(out)})]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{module} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return out.read_bytes()
