"""Tables, streams and their changes below one folder, for tests that use the engine as users do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from plain_tables import read_plain_rows
from pyspark.sql import SparkSession
from table_copies import TEMPLATES

from airflow_provider_cdc.engine import Engine, Progress, ProtocolPoint, Strategy
from airflow_provider_cdc.engine.core.model.stream import METADATA_COLUMNS

_METADATA = {astuple(names) for names in METADATA_COLUMNS.values()}

# Updates a table ``copy`` of (id, v) by the changes of the stream ``s``.
MERGE_INTO_COPY = """
    MERGE INTO {copy} t USING (
        SELECT * FROM s WHERE METADATA$ACTION = 'INSERT' OR NOT METADATA$ISUPDATE
    ) c ON t.id = c.id
    WHEN MATCHED AND c.METADATA$ACTION = 'DELETE' THEN DELETE
    WHEN MATCHED THEN UPDATE SET v = c.v
    WHEN NOT MATCHED AND c.METADATA$ACTION = 'INSERT' THEN INSERT (id, v) VALUES (c.id, c.v)
"""


class Crash(BaseException):
    """Ends a driver at once: the engine must not be able to clean up."""


class Change(NamedTuple):
    """One row of a change set; ``values`` are those of the source's columns, in order."""

    values: tuple[Any, ...]
    action: str
    is_update: bool
    row_id: str


@dataclass(eq=False)
class StreamLab:
    """An engine whose state and tables are below ``root``; a short word names each table."""

    spark: SparkSession
    root: Path
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = self.new_engine()

    def new_engine(self, listener: Any = None, strategy: Strategy | None = None) -> Engine:
        """A second engine on the same state, as in another process."""
        state = str(self.root / "state")
        return Engine(self.spark, state, on_progress=listener, strategy=strategy)

    def path(self, table: str) -> str:
        return str(self.root / table)

    def name(self, table: str) -> str:
        """The SQL name of a table at a path."""
        return f"delta.`{self.path(table)}`"

    def sql(self, *statements: str) -> None:
        """Run statements in which ``{word}`` is the table of that word."""
        for statement in statements:
            self.spark.sql(self.text(statement)).collect()

    def text(self, statement: str) -> str:
        return statement.format_map(_Names(self))

    def make(
        self, table: str, columns: str, *statements: str, properties: str = "", clause: str = ""
    ) -> None:
        """Make a table by a CREATE and by ``statements``, in which ``{t}`` is the table."""
        settings = f"TBLPROPERTIES ({properties})" if properties else ""
        create = f"CREATE TABLE {{t}} ({columns}) USING delta {clause} {settings}"
        texts = create, *statements

        def run(place: Path) -> None:
            for text in texts:
                self.spark.sql(text.replace("{t}", f"delta.`{place}`")).collect()

        TEMPLATES.make(self.spark, Path(self.path(table)), texts, run)

    def consume(
        self,
        *statements: str,
        consumer: str = "tests",
        engine: Engine | None = None,
        **bounds: int,
    ) -> Any:
        texts = [self.text(statement) for statement in statements]
        return (engine or self.engine).consume(texts, consumer=consumer, **bounds)

    def changes(self, stream: str) -> list[Change]:
        """The change set, sorted by values and action."""
        rows = self.engine.read_stream(stream)
        assert tuple(rows.columns[-3:]) in _METADATA
        found = [Change(tuple(row[:-3]), *row[-3:]) for row in rows.collect()]
        return sorted(found, key=lambda change: (repr(change.values), change.action))

    def seen(self, stream: str) -> list[tuple[Any, ...]]:
        """The change set without row ids: values, action and is-update in one tuple each."""
        return [
            (*change.values, change.action, change.is_update) for change in self.changes(stream)
        ]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        found = read_plain_rows(self.path(table))
        if found is None:
            found = [tuple(row) for row in self.spark.table(self.name(table)).collect()]
        return sorted(found, key=repr)

    def committed_at(self, table: str, version: int) -> datetime:
        """The time at which a version was committed, by Delta."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name(table)}")
        (row,) = history.where(f"version = {version}").select("timestamp").collect()
        moment: datetime = row[0]
        return moment.astimezone(UTC)

    def version(self, table: str) -> int:
        log = Path(self.path(table), "_delta_log")
        return max(int(file.stem) for file in log.glob("*.json") if file.stem.isdigit())


class _Names(dict[str, str]):
    def __init__(self, lab: StreamLab) -> None:
        self._lab = lab

    def __missing__(self, table: str) -> str:
        return self._lab.name(table)


# The points that a driver of one statement passes without any trouble.
PASSED_POINTS = (
    ProtocolPoint.BEFORE_BEGIN,
    ProtocolPoint.AFTER_BEGIN,
    ProtocolPoint.BEFORE_STATEMENT,
    ProtocolPoint.AFTER_STATEMENT,
    ProtocolPoint.BEFORE_COMMIT,
    ProtocolPoint.AFTER_COMMIT,
)


def point_name(point: tuple[ProtocolPoint, int | None]) -> str:
    """The id of a test's point and statement."""
    return " ".join(str(part) for part in point if part is not None)


@dataclass
class CrashAt:
    """A listener that ends the driver at a point of the protocol, once."""

    point: ProtocolPoint | None = None
    statement_index: int | None = None

    def __call__(self, progress: Progress) -> None:
        if progress.point is self.point and self.statement_index in (
            None,
            progress.statement_index,
        ):
            self.point = None
            raise Crash(str(progress))


def row_ids(changes: Collection[Change]) -> dict[Any, str]:
    """The row id of each change by its first value."""
    return {change.values[0]: change.row_id for change in changes}
