"""Copies of Delta tables, made as files: a fraction of what making the tables anew costs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path


def copy_tables(template: Path, root: Path, versions: Mapping[str, int]) -> None:
    """Copy tables of ``template`` to ``root``, each through the version that is named for it."""
    for table, version in versions.items():
        shutil.copytree(template / table, root / table, ignore=_commits_after(version))


def copy_later_commits(template: Path, root: Path, table: str, through: int) -> None:
    """Add the commits that :func:`copy_tables` left out, through a version."""
    log = Path(table, "_delta_log")
    known = {file.name for file in (root / log).iterdir()}
    for file in sorted((template / log).iterdir()):
        if file.name not in known and file.is_file() and (_version(file.name) or 0) <= through:
            shutil.copy(file, root / log / file.name)


def _commits_after(version: int) -> Callable[[str, list[str]], set[str]]:
    def later(_: str, names: list[str]) -> set[str]:
        return {name for name in names if (_version(name) or 0) > version}

    return later


def _version(name: str) -> int | None:
    """The version that a file of a Delta log belongs to, its checksums among them."""
    first = name.lstrip(".").split(".")[0]
    return int(first) if len(first) == 20 and first.isdigit() else None
