"""The frames whose rows Spark keeps in memory for one test."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.classic.dataframe import DataFrame


class KeptFrames:
    """Records the frames that are kept from now on. The JVM may keep rows of other tests too."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._frames: list[DataFrame] = []
        for method in ("persist", "localCheckpoint"):
            self._record(patch, method)

    def _record(self, patch: pytest.MonkeyPatch, method: str) -> None:
        original = getattr(DataFrame, method)

        def kept(frame: DataFrame, *arguments: Any, **named: Any) -> DataFrame:
            found: DataFrame = original(frame, *arguments, **named)
            self._frames.append(found)
            return found

        patch.setattr(DataFrame, method, kept)

    def count(self) -> int:
        """How many persisted frames are still kept."""
        return sum(frame.storageLevel.useMemory for frame in self._frames)

    def lose(self) -> None:
        """Lose the rows of checkpointed frames, as if an executor was lost."""
        for frame in self._frames:
            frame._jdf.queryExecution().logical().rdd().unpersist(True)
