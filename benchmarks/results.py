"""What a run measured, as it is kept in ``results/``."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import msgspec

from .timing import Timing


@dataclass(frozen=True, slots=True)
class Row:
    """One way to do the work of a workload.

    ``size_bytes`` is the size of the files in which the two ends of the commits differ, or what
    ``way`` names. ``plan`` is what the way reads, if it can report that.
    """

    workload: str
    way: str
    timing: Timing | None
    size_bytes: int = 0
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """What was measured in one go: on which ``machine``, on which ``date``, and with which
    ``revision`` of this project.
    """

    name: str
    machine: str
    date: str
    revision: str


@dataclass(frozen=True, slots=True)
class Run:
    """The rows of one part of the benchmark, measured in ``pieces``. Only readers whose names
    contain ``readers`` were measured.
    """

    part: str
    table_rows: int
    repeats: int
    limit_seconds: float
    readers: str
    pieces: list[Piece] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def by_workload(self) -> dict[str, dict[str, Row]]:
        """The rows by workload and way, in the order they were measured."""
        found: dict[str, dict[str, Row]] = {}
        for row in self.rows:
            found.setdefault(row.workload, {})[row.way] = row
        return found


def piece(name: str) -> Piece:
    """A piece that is measured here and now."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    system = f"{platform.system()} {platform.machine()}"
    machine = f"{os.cpu_count()} cores{_processor()}, {memory} GiB, {system}"
    date = datetime.now(UTC).date().isoformat()
    return Piece(name, machine, date, _revision())


@cache
def _revision() -> str:
    """The commit whose code this process runs, and whether that code has changed since."""
    found = _git("rev-parse", "--short", "HEAD").stdout.strip()
    changed = _git("diff", "--quiet", "HEAD", "--", "*.py").returncode != 0
    return f"{found} and changes" if found and changed else found


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[1]
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)


def _processor() -> str:
    found = Path("/proc/cpuinfo")
    lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f" of {names[0]}" if names else ""


def write(run: Run, folder: Path) -> None:
    """Keep ``run`` in ``folder``, in place of the run of its part before."""
    folder.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(run)) + b"\n"
    _path(folder, run.part).write_bytes(content)


def read(folder: Path, part: str) -> Run | None:
    """The run that is kept of ``part``, or None."""
    path = _path(folder, part)
    return msgspec.json.decode(path.read_bytes(), type=Run) if path.exists() else None


def _path(folder: Path, part: str) -> Path:
    return folder / f"{part}.json"
