"""Delta logs written by hand, for tests of what the times of commits mean."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)


class WrittenLog:
    """A log whose files were written at chosen seconds after ``START``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "_delta_log"
        self.folder.mkdir(parents=True)

    def commit(
        self,
        version: int,
        seconds: float,
        own_seconds: float | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        actions: list[dict[str, Any]] = []
        if own_seconds is not None:
            actions.append({"commitInfo": {"inCommitTimestamp": _milliseconds(own_seconds)}})
        if version == 0 or settings is not None:
            metadata = {"id": "t", "configuration": settings or {}}
            mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark": 9}'}
            actions += [
                {"metaData": metadata},
                {"protocol": {"minReaderVersion": 1}},
                {"domainMetadata": mark},
            ]
        path = self.folder / f"{version:020d}.json"
        path.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
        os.utime(path, (after(seconds).timestamp(),) * 2)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def _milliseconds(seconds: float) -> int:
    return int(after(seconds).timestamp() * 1000)


def set_protocol(
    table: str, reader: tuple[str, ...] = (), writer: tuple[str, ...] = (), reader_version: int = 3
) -> None:
    """Commit a protocol with more features to the log of a table, as another release of Delta or a
    catalog does.
    """
    log = Path(table, "_delta_log")
    commits = sorted(file for file in log.glob("*.json") if file.stem.isdigit())
    lines = [line for file in commits for line in file.read_text(encoding="utf-8").splitlines()]
    found = [action["protocol"] for action in map(json.loads, lines) if "protocol" in action][-1]
    protocol = {
        "minReaderVersion": reader_version,
        "minWriterVersion": 7,
        "readerFeatures": sorted({*found.get("readerFeatures", ()), *reader}),
        "writerFeatures": sorted({*found.get("writerFeatures", ()), *reader, *writer}),
    }
    info = {"timestamp": _milliseconds(0), "operation": "SET TBLPROPERTIES"}
    actions = [{"commitInfo": info}, {"protocol": protocol}]
    version = int(commits[-1].stem) + 1
    text = "\n".join(map(json.dumps, actions))
    (log / f"{version:020d}.json").write_text(text, encoding="utf-8")
