"""What a run measured, as it is kept in ``results/``."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyspark

from .timing import Timing


@dataclass(frozen=True, slots=True)
class Row:
    """One reader on one workload."""

    workload: str
    reader: str
    timing: Timing
    touched_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """All rows of one run, and the machine they were measured on."""

    machine: str
    spark: str
    table_rows: int
    repeats: int
    limit_seconds: float
    rows: tuple[Row, ...]


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return f"{os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.machine()}"


def new_run(table_rows: int, repeats: int, limit_seconds: float, rows: list[Row]) -> Run:
    return Run(machine(), pyspark.__version__, table_rows, repeats, limit_seconds, tuple(rows))


def write(run: Run, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run)) + b"\n")


def read(path: Path) -> Run:
    return msgspec.json.decode(path.read_bytes(), type=Run)
