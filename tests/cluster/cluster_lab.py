"""Tables and streams on S3, and the change sets that they must have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cdc_stack.local_stack import LocalStack
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine

Change = tuple[Any, ...]


@dataclass(eq=False)
class ClusterLab:
    """An engine whose state and tables are below a folder on S3.

    :param root: the URI of the folder
    """

    stack: LocalStack
    spark: SparkSession
    root: str
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.connect(self.spark)

    @property
    def state(self) -> str:
        return f"{self.root}/state"

    def connect(self, spark: SparkSession) -> None:
        """Go on with another session, as after a restart of its server."""
        self.spark = spark
        self.engine = Engine(spark, self.state, storage_options=self.stack.storage_options)

    def path(self, table: str) -> str:
        return f"{self.root}/{table}"

    def text(self, statement: str) -> str:
        """``statement`` with the table at a path in place of each ``{word}``."""
        return statement.format_map(_Names(self))

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last one of ``statements``."""
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            rows = [tuple(row) for row in self.spark.sql(self.text(statement)).collect()]
        return rows

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(self.sql(f"SELECT * FROM {{{table}}}"))

    def version(self, table: str) -> int:
        history = self.spark.sql(self.text(f"DESCRIBE HISTORY {{{table}}}"))
        return max(row.version for row in history.select("version").collect())

    def changes(self, stream: str) -> list[Change]:
        """The change set without row ids, sorted."""
        rows = self.engine.read_stream(stream).collect()
        return sorted((tuple(row)[:-1] for row in rows), key=repr)

    def expected_changes(self, table: str, after: int, through: int) -> list[Change]:
        """The difference of two versions of a table, by Delta's row ids and time travel."""
        old, new = (self._rows_by_id(table, version) for version in (after, through))
        found: list[Change] = []
        for row_id in old.keys() | new.keys():
            before, now = old.get(row_id), new.get(row_id)
            if before == now:
                continue
            is_update = before is not None and now is not None
            found += [(*before, "DELETE", is_update)] if before is not None else []
            found += [(*now, "INSERT", is_update)] if now is not None else []
        return sorted(found, key=repr)

    def _rows_by_id(self, table: str, version: int) -> dict[int, tuple[Any, ...]]:
        rows = self.sql(f"SELECT _metadata.row_id, * FROM {{{table}}} VERSION AS OF {version}")
        return {row[0]: row[1:] for row in rows}


class _Names(dict[str, str]):
    def __init__(self, lab: ClusterLab) -> None:
        self._lab = lab

    def __missing__(self, table: str) -> str:
        return f"delta.`{self._lab.path(table)}`"
