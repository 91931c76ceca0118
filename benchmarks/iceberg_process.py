"""Running the benchmark of Iceberg, which needs another Spark, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import msgspec

from .shapes import Workload
from .timing import Patience, Timing

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-iceberg/bin/python"
NAME = "Iceberg create_changelog_view, net_changes"


def measure(workload: Workload, patience: Patience) -> Timing:
    """How long Iceberg needs for the net changes of a workload."""
    with tempfile.TemporaryDirectory(prefix="iceberg-") as folder:
        out = Path(folder) / "timing.json"
        request = {
            "rows": workload.rows,
            "shape": workload.shape.value,
            "commits": workload.commits,
            "repeats": patience.repeats,
            "limit": patience.limit,
            "folder": f"{folder}/warehouse",
            "out": str(out),
        }
        command = [str(PYTHON), "-m", "benchmarks.iceberg", json.dumps(request)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Iceberg ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return msgspec.json.decode(out.read_bytes(), type=Timing)
