"""A table and its archive, and what their tests compare."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from feed_lab import Feed, by_commit, plain
from pyspark.sql import DataFrame
from stream_lab import StreamLab

from airflow_provider_cdc.engine import ArchiveOutcome, Version


@dataclass(eq=False)
class ArchiveLab(StreamLab):
    """A table ``src`` and its archive ``log``."""

    def archive(self, **arguments: Any) -> ArchiveOutcome:
        return self.engine.archive_changes(self.path("src"), self.path("log"), **arguments)

    def replay(self, **arguments: Any) -> DataFrame:
        return self.engine.replay(self.path("log"), **arguments)

    def archived(self, **arguments: Any) -> Feed:
        """The archived part of the feed, commit by commit."""
        rows = self.engine.change_feed(self.path("src"), archive=self.path("log"), **arguments)
        return by_commit(rows)

    def table_feed(self, first: int, **arguments: Any) -> Feed:
        return by_commit(self.engine.change_feed(self.path("src"), from_version=first, **arguments))

    def check_replays(self, *versions: int) -> None:
        """Compare the rows that the archive returns with those of the table."""
        for version in versions:
            reader = self.spark.read.format("delta").option("versionAsOf", version)
            table = reader.load(self.path("src"))
            found = self.replay(as_of=Version(version))
            assert found.dtypes == table.dtypes, f"version {version}"
            assert _counted(found) == _counted(table), f"version {version}"


def _counted(rows: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(plain, row)) for row in rows.collect())
