"""What a run measured, as it is kept in ``results/``."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from .timing import Timing


@dataclass(frozen=True, slots=True)
class Row:
    """One way to do the work of a workload.

    ``size_bytes``: of the files in which the two ends of the commits differ, or what ``way`` says.
    """

    workload: str
    way: str
    timing: Timing | None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """The rows of one part of the benchmark, and the machine they were measured on.

    ``pieces`` names what was measured whole; ``readers`` is a part of the names of those that were.
    """

    part: str
    table_rows: int
    repeats: int
    limit_seconds: float
    readers: str
    machine: str
    pieces: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def by_workload(self) -> dict[str, dict[str, Row]]:
        """The rows by workload and way, in the order they were measured."""
        found: dict[str, dict[str, Row]] = {}
        for row in self.rows:
            found.setdefault(row.workload, {})[row.way] = row
        return found


def machine() -> str:
    """What the figures were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return f"{os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.machine()}"


def write(run: Run, folder: Path) -> None:
    """Keep ``run`` in ``folder`` in place of what was there of its part."""
    folder.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(run)) + b"\n"
    _path(folder, run.part).write_bytes(content)


def read(folder: Path, part: str) -> Run | None:
    """What is kept of ``part``, or None."""
    path = _path(folder, part)
    return msgspec.json.decode(path.read_bytes(), type=Run) if path.exists() else None


def _path(folder: Path, part: str) -> Path:
    return folder / f"{part}.json"
