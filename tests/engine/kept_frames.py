"""The frames whose rows Spark keeps in memory for one test."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.classic.dataframe import DataFrame


class KeptFrames:
    """Records the frames that are kept from now on. The JVM may keep rows of other tests too."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._persisted = self._recorded(patch, "persist")
        self._checkpointed = self._recorded(patch, "localCheckpoint")

    def _recorded(self, patch: pytest.MonkeyPatch, method: str) -> list[DataFrame]:
        """The frames that ``method`` returns from now on."""
        original, frames = getattr(DataFrame, method), []

        def kept(frame: DataFrame, *arguments: Any, **named: Any) -> DataFrame:
            frames.append(original(frame, *arguments, **named))
            return frames[-1]

        patch.setattr(DataFrame, method, kept)
        return frames

    def count(self) -> int:
        """How many frames are persisted or checkpointed now."""
        return sum(frame.storageLevel.useMemory for frame in self._persisted) + sum(
            rows.getStorageLevel().useMemory() for rows in self._checkpoints()
        )

    def lose(self) -> None:
        """Lose the rows of checkpointed frames, as if an executor was lost."""
        for rows in self._checkpoints():
            rows.unpersist(True)

    def _checkpoints(self) -> list[Any]:
        """The RDDs of the checkpointed frames."""
        return [frame._jdf.queryExecution().logical().rdd() for frame in self._checkpointed]
