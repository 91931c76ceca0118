"""Runs the benchmark of Iceberg, which needs another Spark, in a process of its own."""

from __future__ import annotations

import tempfile

import msgspec

from . import processes
from .shapes import Workload
from .timing import Patience, Timing

PYTHON = processes.ROOT / ".venv-iceberg/bin/python"
NAME = "Iceberg create_changelog_view, net_changes"


def measure(workload: Workload, patience: Patience) -> Timing:
    """How long Iceberg needs for the net changes of a workload."""
    with tempfile.TemporaryDirectory(prefix="iceberg-") as folder:
        request = {
            "rows": workload.rows,
            "shape": workload.shape.value,
            "commits": workload.commits,
            "repeats": patience.repeats,
            "limit": patience.limit,
            "folder": f"{folder}/warehouse",
        }
        found = processes.answer(PYTHON, "benchmarks.iceberg", request)
        return msgspec.json.decode(found, type=Timing)
