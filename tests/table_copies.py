"""Copies of Delta tables by their files: much cheaper than making the tables anew."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

_ID = re.compile(r'"metaData":\{"id":"([^"]+)"')
_ANY_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Times in milliseconds; inside statistics such a name has a backslash before its quotes.
_TIME = re.compile(
    r'(?<=")(timestamp|createdTime|inCommitTimestamp|inCommitTimestampOpt|modificationTime)":(\d+)'
)


class Templates:
    """Tables that this process made once: the next identical table is a copy of their files, with
    ids of its own and its newest commit moved to now.
    """

    def __init__(self) -> None:
        self._root: Path | None = None
        self._made: dict[Hashable, Path] = {}

    def make(
        self, spark: SparkSession, place: Path, what: Hashable, make: Callable[[Path], None]
    ) -> None:
        """Make the table that ``what`` names in the folder ``place``.

        In a folder that already exists, ``make`` makes the table there.

        :param make: makes the table in a folder and nothing else that matters, in the same way in
            any folder; the settings of the session may influence it
        """
        if place.exists():
            make(place)
            return
        key = what, _settings(spark)
        if key in self._made:
            copy_as_new(self._made[key], place)
            return
        make(place)
        template = self._folder() / str(len(self._made))
        shutil.copytree(place, template)
        self._made[key] = template

    def _folder(self) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="templates-"))
            atexit.register(shutil.rmtree, self._root, ignore_errors=True)
        return self._root


TEMPLATES = Templates()


def copy_as_new(template: Path, place: Path) -> None:
    """Copy the tables in ``template`` to ``place``, each with an id of its own, and move all times
    so that the newest file is from now.

    Tables with checkpoints keep their metadata, because it is also in Parquet files.
    """
    shutil.copytree(template, place)
    files = [file for file in place.rglob("*") if file.is_file()]
    written = {file: file.stat().st_mtime for file in files}
    later = time.time() - max(written.values())
    texts = {file: file.read_text() for file in files if file.suffix in (".json", ".crc")}
    ids: dict[str, str] = {}
    kept = {"createdTime"}
    if not any(".checkpoint." in file.name for file in files):
        kept = set()
        ids = {found: str(uuid.uuid4()) for text in texts.values() for found in _ID.findall(text)}
    for file, text in texts.items():
        own = _ANY_ID.sub(lambda found: ids.get(found[0], found[0]), text)
        file.write_text(
            _TIME.sub(lambda found: found[0] if found[1] in kept else _moved(found, later), own)
        )
    for file, moment in written.items():
        os.utime(file, (moment + later, moment + later))


def _moved(found: re.Match[str], seconds: float) -> str:
    name, moment = found.groups()
    return f'{name}":{int(moment) + int(seconds * 1000)}'


def _settings(spark: SparkSession) -> int:
    """A hash of all settings of a session: reading them one by one takes longer than a copy. Over
    Spark Connect, all tests make tables under the same settings.
    """
    if not isinstance(spark, SparkSession):
        return 0
    return int(spark._jsparkSession.conf().getAllAsJava().hashCode())


def copy_tables(template: Path, root: Path, versions: Mapping[str, int]) -> None:
    """Copy tables of ``template`` to ``root``, each through its version in ``versions``."""
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
    """The version of a file of a Delta log, or of its checksum file."""
    first = name.lstrip(".").split(".")[0]
    return int(first) if len(first) == 20 and first.isdigit() else None
