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
