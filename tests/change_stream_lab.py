"""Change streams of tables below one folder, and the records that their readers get."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Row
from stream_lab import StreamLab

from airflow_provider_cdc.engine import ChangeStream, Engine, Watch
from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog


@dataclass(eq=False)
class ChangeStreamLab(StreamLab):
    """An engine with a change stream ``cs``. Its clock is that of the machine, or stops."""

    stopped: datetime | None = field(default=None)

    def __post_init__(self) -> None:
        self.engine = Engine(self.spark, str(self.root / "state"), clock=self.now)

    def now(self) -> datetime:
        return self.stopped or datetime.now(UTC)

    def create(self, tables: dict[str, Watch], **given: Any) -> ChangeStream:
        watched = {self.path(name): watch for name, watch in tables.items()}
        return self.engine.create_change_stream("cs", watched, **given)

    def advance(self) -> ChangeStream:
        return self.engine.advance_change_stream("cs")

    def records(self, *bounds: datetime) -> list[Row]:
        """All data change records."""
        return self.engine.change_records("cs", *bounds).collect()

    def mods(self, *bounds: datetime) -> list[tuple[Any, ...]]:
        """Each changed row as the kind of change, its key, new values and old values."""
        return [
            (row.mod_type, *(json.loads(text) for text in mod))
            for row in self.records(*bounds)
            for mod in row.mods
        ]

    def read(self, *arguments: Any, **given: Any) -> list[Row]:
        """The elements of the arrays that a query returns."""
        return elements(self.engine.read_change_stream("cs", *arguments, **given))

    def tokens(self, start: datetime) -> list[str]:
        """The tokens that the first query of a reader returns."""
        return [child.token for row in self.read(start) for child in children(row)]

    def ready(self, holder: str) -> int:
        """How many partitions the consumer ``c`` could be handed out."""
        catalog = ChangeStreamCatalog(str(self.root / "state"), clock=self.now)
        return catalog.ready_partitions("cs", "c", holder=holder)

    def walk(self, start: datetime) -> list[Row]:
        """All data change records that a reader gets who follows each partition to its children,
        a child after all of its parents.
        """
        found: list[Row] = []
        waiting: dict[str, set[str]] = {token: set() for token in self.tokens(start)}
        starts = dict.fromkeys(waiting, start)
        finished: set[str] = set()
        while ready := [one for one, parents in waiting.items() if parents <= finished]:
            token = ready[0]
            del waiting[token]
            for row in self.read(starts[token], partition_token=token):
                if row.data_change_record:
                    found.extend(row.data_change_record)
                for child in children(row):
                    starts[child.token] = row.child_partitions_record[0].start_timestamp
                    waiting[child.token] = set(child.parent_partition_tokens)
                    finished.add(token)
        assert not waiting
        return found


def elements(rows: DataFrame) -> list[Row]:
    found = []
    for row in rows.collect():
        (element,) = row.ChangeRecord
        assert sum(field is not None for field in element) == 1
        assert all(field is None or len(field) == 1 for field in element)
        found.append(element)
    return found


def children(row: Row) -> list[Row]:
    if row.child_partitions_record is None:
        return []
    (record,) = row.child_partitions_record
    return list(record.child_partitions)


def moment(row: Row) -> datetime:
    """The commit timestamp of a data change record."""
    found: datetime = row.commit_timestamp
    return found.astimezone(UTC)


def next_moment(found: datetime) -> datetime:
    return found + timedelta(microseconds=1)
