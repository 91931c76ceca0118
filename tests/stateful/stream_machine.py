"""One table with two streams under random writes, reads, consumptions and crashes."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import currently_in_test_context, event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from pyspark.sql import DataFrame, SparkSession
from row_model import Change, Pending, Row, Rows, StreamModel, TableModel
from stream_lab import Crash, StreamLab
from streams import delta_row_id
from table_writes import (
    ROWS,
    VALUES,
    WRITES,
    Delete,
    Insert,
    Merge,
    Overwrite,
    Update,
    UpdateNewestColumn,
)

from airflow_provider_cdc.engine import (
    AppendSemantics,
    Progress,
    ProtocolPoint,
    Strategy,
    StreamConflict,
    StreamMode,
    Version,
)
from airflow_provider_cdc.engine.core.change_feed.feed_options import FeedSource
from airflow_provider_cdc.engine.core.change_sets.read_plan import READING_DIFFERENCES
from airflow_provider_cdc.engine.spark.change_feed import pairing
from airflow_provider_cdc.engine.spark.change_sets import table_changes_reader
from airflow_provider_cdc.engine.spark.change_sets.table_changes_reader import MANY_REWRITTEN_ROWS

MOST_ROWS = 24
MOST_COLUMNS = 7
STANDARD, APPENDED = "changes", "added"

STATEMENTS = {
    STANDARD: (
        """MERGE INTO {mirror} t
        USING (SELECT * FROM changes
               WHERE METADATA$ACTION = 'INSERT' OR NOT METADATA$ISUPDATE) c
        ON t.row_id = c.METADATA$ROW_ID
        WHEN MATCHED AND c.METADATA$ACTION = 'DELETE' THEN DELETE
        WHEN MATCHED THEN UPDATE SET k = c.k, p = c.p, v = c.v, s = c.s
        WHEN NOT MATCHED AND c.METADATA$ACTION = 'INSERT' THEN
          INSERT (row_id, k, p, v, s) VALUES (c.METADATA$ROW_ID, c.k, c.p, c.v, c.s)""",
        """INSERT INTO {log_changes}
        SELECT METADATA$ROW_ID, METADATA$ACTION, METADATA$ISUPDATE, k, p, v, s FROM changes""",
    ),
    APPENDED: (
        """INSERT INTO {log_added}
        SELECT METADATA$ROW_ID, METADATA$ACTION, METADATA$ISUPDATE, k, p, v, s FROM added""",
    ),
}
VIEW = "SELECT k, v FROM {t} WHERE p = 0"
LOG_COLUMNS = "row_id STRING, action STRING, is_update BOOLEAN, k INT, p INT, v INT, s STRING"
CRASH_POINTS = st.sampled_from(
    [
        None,
        None,
        (ProtocolPoint.BEFORE_BEGIN, None),
        (ProtocolPoint.AFTER_BEGIN, None),
        (ProtocolPoint.AFTER_STATEMENT, 0),
        (ProtocolPoint.AFTER_STATEMENT, 1),
        (ProtocolPoint.BEFORE_COMMIT, None),
        (ProtocolPoint.AFTER_COMMIT, None),
        (ProtocolPoint.BEFORE_FENCE, None),
        (ProtocolPoint.AFTER_FENCE, None),
        (ProtocolPoint.BEFORE_UNDO, None),
        (ProtocolPoint.AFTER_UNDO, None),
    ]
)
RESOLUTION = (
    ProtocolPoint.BEFORE_FENCE,
    ProtocolPoint.AFTER_FENCE,
    ProtocolPoint.BEFORE_UNDO,
    ProtocolPoint.AFTER_UNDO,
)


def _action(name: str, /, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


NAMES = st.sampled_from([STANDARD, APPENDED])
STRATEGIES = st.sampled_from([None, *READING_DIFFERENCES])
WRITE = _action("write", writes=st.lists(WRITES, min_size=1, max_size=3))
READ = _action("read", name=NAMES, strategy=STRATEGIES, ids_first=st.booleans())
CONSUME = _action(
    "consume",
    names=st.sampled_from([(STANDARD,), (APPENDED,), (STANDARD, APPENDED)]),
    consumer=st.sampled_from(["first", "second"]),
    crash=CRASH_POINTS,
)
ACTIONS = st.one_of(
    WRITE,
    WRITE,
    WRITE,
    CONSUME,
    CONSUME,
    CONSUME,
    READ,
    READ,
    _action("ask_for_data", name=NAMES),
    _action(
        "look_back",
        back=st.integers(0, 12),
        length=st.integers(0, 12),
        information=st.sampled_from(["default", "append_only"]),
    ),
    _action(
        "read_feed",
        back=st.integers(0, 12),
        length=st.integers(1, 12),
        source=st.sampled_from([FeedSource.AUTO, FeedSource.ROW_TRACKING]),
        ids_first=st.booleans(),
    ),
    _action("archive", crash=CRASH_POINTS, back=st.integers(0, 12)),
    _action(
        "start_in_the_past",
        back=st.integers(0, 12),
        semantics=st.sampled_from([None, *AppendSemantics]),
        shows_initial_rows=st.booleans(),
    ),
    _action("read_view", advance=st.booleans()),
    _action("advance"),
    _action("restore", back=st.integers(0, 12)),
    _action("add_column"),
    _action("switch_feed", is_on=st.booleans()),
    _action(
        "rearrange",
        statement=st.sampled_from(
            [
                "OPTIMIZE {t}",
                "OPTIMIZE {t} ZORDER BY (k)",
                "REORG TABLE {t} APPLY (PURGE)",
                "VACUUM {t}",
            ]
        ),
    ),
)


def _collected(rows: DataFrame) -> Counter[Change]:
    return Counter(
        Change(delta_row_id(row[-1]), row[-3], row[-2], tuple(row[:-3])) for row in rows.collect()
    )


def _without_equal_pairs(changes: Counter[Change]) -> Counter[Change]:
    """``changes`` without the updates that wrote the values that a row had."""
    kept = Counter(changes)
    for change in changes:
        opposite = change._replace(action="INSERT" if change.action == "DELETE" else "DELETE")
        if change.is_update and opposite in changes:
            del kept[change]
    return kept


class CrashListener:
    """Ends the driver at one point, and remembers that point."""

    def __init__(self) -> None:
        self.wanted: tuple[ProtocolPoint, int | None] | None = None
        self.seen: Progress | None = None

    def arm(self, wanted: tuple[ProtocolPoint, int | None] | None) -> None:
        self.wanted, self.seen = wanted, None

    def __call__(self, progress: Progress) -> None:
        if self.wanted is None or self.seen is not None:
            return
        point, index = self.wanted
        if progress.point is point and index in (None, progress.statement_index):
            self.seen = progress
            raise Crash(str(progress))


class StreamMachine(RuleBasedStateMachine):
    """One table with two streams, their targets, and a model of all of them."""

    numbers = count()
    steps = 0

    def __init__(self, spark: SparkSession, root: Path) -> None:
        super().__init__()
        self.lab = StreamLab(spark, root / str(next(self.numbers)))
        self.crash = CrashListener()
        self.engine = self.lab.new_engine(self.crash)
        self.next_key = 0
        self.table = TableModel(["k", *sorted(VALUES)])
        self.streams: dict[str, StreamModel] = {}
        self.archived_since: int | None = None

    @initialize(
        has_vectors=st.booleans(),
        is_partitioned=st.booleans(),
        checkpoint_interval=st.sampled_from([3, 100]),
        has_feed=st.booleans(),
        semantics=st.sampled_from(AppendSemantics),
        rows=ROWS,
    )
    def create(
        self,
        has_vectors: bool,
        is_partitioned: bool,
        checkpoint_interval: int,
        has_feed: bool,
        semantics: AppendSemantics,
        rows: tuple[Row, ...],
    ) -> None:
        self.lab.make(
            "t",
            "k INT, p INT, s STRING, v INT",
            clause="PARTITIONED BY (p)" if is_partitioned else "",
            properties="'delta.enableRowTracking' = 'true',"
            f" 'delta.enableDeletionVectors' = '{has_vectors}',"
            f" 'delta.enableChangeDataFeed' = '{has_feed}',"
            f" 'delta.checkpointInterval' = '{checkpoint_interval}'",
        )
        self.lab.make("mirror", "row_id STRING, k INT, p INT, v INT, s STRING")
        self.lab.make("log_changes", LOG_COLUMNS)
        self.lab.make("log_added", LOG_COLUMNS)
        for name, mode in (
            (STANDARD, StreamMode.STANDARD),
            (APPENDED, StreamMode.APPEND_ONLY),
        ):
            self.engine.create_stream(
                name, on_table=self.lab.path("t"), mode=mode, append_semantics=semantics
            )
            self.streams[name] = StreamModel(name, mode, semantics, self.table.version)
        self.view = f"machine_{next(self.numbers)}"
        self.lab.sql(f"CREATE VIEW {self.view} AS {VIEW}")
        self.engine.create_stream("on_view", on_view=self.view)
        self.view_offset = self.table.version
        self.write([Insert(rows)])

    # One rule: with several, Hypothesis would leave most of them out of most examples.
    @rule(action=ACTIONS)
    def act(self, action: tuple[str, dict[str, Any]]) -> None:
        name, arguments = action
        getattr(self, name)(**arguments)

    # Writing

    def write(self, writes: list[Any]) -> None:
        for item in writes:
            getattr(self, f"_{type(item).__name__.lower()}")(item)
        self._check_table()
        self._count("write", len(writes))

    def add_column(self) -> None:
        if len(self.table.columns) == MOST_COLUMNS:
            return
        name = f"x{len(self.table.columns)}"
        self.lab.sql(f"ALTER TABLE {{t}} ADD COLUMN ({name} INT)")
        self.table.add_column(name)
        self._record()
        self._count("add column")

    def switch_feed(self, is_on: bool) -> None:
        self.lab.sql(
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.enableChangeDataFeed'='{is_on}')"
        )
        self._record()
        self._count("switch feed")

    def rearrange(self, statement: str) -> None:
        self.lab.sql(statement)
        self._record()
        self._check_table()
        self._count(statement)

    def restore(self, back: int) -> None:
        version = max(0, self.table.version - back)
        self.lab.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        self.table.restore(version)
        self._record()
        self._check_table()
        self._count("restore")

    # Reading

    def read(self, name: str, strategy: Strategy | None = None, *, ids_first: bool = False) -> None:
        many = 0 if ids_first else MANY_REWRITTEN_ROWS
        with patch.object(table_changes_reader, "MANY_REWRITTEN_ROWS", many):
            rows = self.lab.new_engine(strategy=strategy).read_stream(name)
        assert tuple(rows.columns[:-3]) == tuple(self.table.columns)
        assert _collected(rows) == self.table.change_set(self.streams[name])
        self._count("read")

    def ask_for_data(self, name: str) -> None:
        has_any = bool(self.table.change_set(self.streams[name]))
        assert self.engine.stream_has_data(name) == has_any
        assert not has_any or self.engine.stream_has_data(name, exact=False)
        self._count("has data")

    def look_back(self, back: int, length: int, information: str) -> None:
        start = max(0, self.table.version - back)
        end = min(self.table.version, start + length)
        rows = self.engine.changes(
            self.lab.path("t"), at=Version(start), end=Version(end), information=information
        )
        mode = StreamMode.STANDARD if information == "default" else StreamMode.APPEND_ONLY
        passing = StreamModel("", mode, AppendSemantics.INSERTED, start)
        assert _collected(rows) == self.table.change_set(passing, end)
        self._count("look back")

    def read_feed(self, back: int, length: int, source: FeedSource, *, ids_first: bool) -> None:
        first = max(1, self.table.version - back)
        last = min(self.table.version, first + length - 1)
        many = 0 if ids_first else MANY_REWRITTEN_ROWS
        with patch.object(pairing, "MANY_REWRITTEN_ROWS", many):
            rows = self.engine.change_feed(
                self.lab.path("t"),
                from_version=first,
                to_version=last,
                source=source,
                row_ids=True,
            )
        found = {version: Counter[Change]() for version in range(first, last + 1)}
        for row in rows.collect():
            *values, kind, version, _, row_id = row
            action = "DELETE" if kind in ("delete", "update_preimage") else "INSERT"
            change = Change(delta_row_id(row_id), action, kind.startswith("update"), tuple(values))
            found[version][change] += 1
        for version, changes in found.items():
            assert _without_equal_pairs(changes) == self.table.changes_of(version, last)
        self._count("read feed")

    def archive(self, crash: tuple[ProtocolPoint, int | None] | None, back: int) -> None:
        if self.archived_since is None:
            self.archived_since = self.table.version
        table, archive = self.lab.path("t"), self.lab.path("archive")
        self.crash.arm(crash)
        with suppress(Crash):
            self.engine.archive_changes(table, archive)
        self.crash.arm(None)
        outcome = self.engine.archive_changes(table, archive)
        assert outcome.through_version == self.table.version
        version = max(self.archived_since, self.table.version - back)
        found = self.engine.replay(archive, as_of=Version(version))
        then = self.table.history[version]
        assert found.columns == list(then.columns)
        assert Counter(map(tuple, found.collect())) == Counter(map(then.values, then.rows.values()))
        assert self.engine.verify_target(outcome.stream, archive).is_equal
        self._count("archive")

    def start_in_the_past(
        self, back: int, semantics: AppendSemantics | None, shows_initial_rows: bool
    ) -> None:
        start = max(0, self.table.version - back)
        mode = StreamMode.STANDARD if semantics is None else StreamMode.APPEND_ONLY
        semantics = semantics or AppendSemantics.INSERTED
        self.engine.create_stream(
            "early",
            on_table=self.lab.path("t"),
            at=Version(start),
            mode=mode,
            append_semantics=semantics,
            or_replace=True,
            show_initial_rows=shows_initial_rows,
        )
        if shows_initial_rows:
            then = self.table.history[start]
            expected = Counter(
                Change(row_id, "INSERT", False, then.values(row))
                for row_id, row in then.rows.items()
            )
            assert _collected(self.engine.read_stream("early")) == expected
            self.lab.make("log_early", "row_id STRING")
            self.lab.consume("INSERT INTO {log_early} SELECT METADATA$ROW_ID FROM early")
            assert len(self.lab.rows("log_early")) == len(then.rows)
            self.lab.sql("DROP TABLE {log_early}")
            rmtree(self.lab.path("log_early"), ignore_errors=True)
        early = StreamModel("early", mode, semantics, start)
        assert _collected(self.engine.read_stream("early")) == self.table.change_set(early)
        self._count("start in the past")

    def read_view(self, advance: bool) -> None:
        found = Counter((*row[:-1],) for row in self.engine.read_stream("on_view").collect())
        old, new = (
            {
                row_id: (row["k"], row["v"])
                for row_id, row in self.table.history[version].rows.items()
                if row["p"] == 0
            }
            for version in (self.view_offset, self.table.version)
        )
        expected: Counter[tuple[Any, ...]] = Counter()
        for row_id in old.keys() | new.keys():
            before, after = old.get(row_id), new.get(row_id)
            is_update = before is not None and after is not None
            if before is not None and before != after:
                expected[*before, "DELETE", is_update] += 1
            if after is not None and before != after:
                expected[*after, "INSERT", is_update] += 1
        assert found == expected
        if advance:
            self.engine.advance_stream("on_view")
            self.view_offset = self.table.version
        self._count("read view")

    # Consuming

    def advance(self) -> None:
        # Only the append-only stream: the mirror of the standard stream would miss what is skipped.
        stream = self.streams[APPENDED]
        if stream.pending:
            with pytest.raises(StreamConflict, match="cannot be advanced"):
                self.engine.advance_stream(APPENDED)
        else:
            self.engine.advance_stream(APPENDED)
            stream.offset = self.table.version
        self._count("advance")

    def consume(
        self,
        names: tuple[str, ...],
        consumer: str,
        crash: tuple[ProtocolPoint, int | None] | None,
    ) -> None:
        statements = [text for name in names for text in STATEMENTS[name]]
        self.crash.arm(crash)
        try:
            self.lab.consume(*statements, consumer=consumer, engine=self.engine)
        except Crash:
            assert self.crash.seen is not None
        self._follow(names, consumer, len(statements), self.crash.seen)
        self._check_targets()
        self._count("consume" if self.crash.seen is None else f"crash {self.crash.seen.point}")

    def teardown(self) -> None:
        if not self.streams:
            return
        try:
            # The next consumer ends whatever is open, and nothing is lost or doubled.
            self.consume((STANDARD, APPENDED), "last", None)
            for stream in self.streams.values():
                assert stream.pending is None
                assert not self.table.change_set(stream)
        finally:
            # A view without its table cannot be listed, and other tests list the views.
            self.lab.sql(f"DROP VIEW IF EXISTS {self.view}")

    # The model

    def _follow(
        self, names: tuple[str, ...], consumer: str, statement_count: int, seen: Progress | None
    ) -> None:
        """Repeat in the model the driver's steps until it ended at ``seen``."""
        own = None
        while own is None and (found := self._first_pending(names)):
            if not found.is_resolving and (found.consumer, found.streams) == (consumer, names):
                own = found
            elif seen and seen.point in RESOLUTION and seen.consumption_id == found.consumption_id:
                found.is_resolving = True
                return
            else:
                self._end(found, is_committed=found.applied == self._statement_count(found))
        if seen is not None and seen.point is ProtocolPoint.BEFORE_BEGIN:
            return
        if own is None:
            own = Pending(consumer, names, self.table.version)
            for name in names:
                self.streams[name].pending = own
        if seen is None or seen.point is ProtocolPoint.AFTER_COMMIT:
            self._end(own, is_committed=True)
            return
        own.consumption_id = seen.consumption_id
        if seen.point is ProtocolPoint.BEFORE_COMMIT:
            own.applied = statement_count
        elif seen.point is ProtocolPoint.AFTER_STATEMENT:
            assert seen.statement_index is not None
            own.applied = max(own.applied, seen.statement_index + 1)

    def _first_pending(self, names: tuple[str, ...]) -> Pending | None:
        return next((found for name in names if (found := self.streams[name].pending)), None)

    def _statement_count(self, pending: Pending) -> int:
        return sum(len(STATEMENTS[name]) for name in pending.streams)

    def _end(self, pending: Pending, *, is_committed: bool) -> None:
        for name in pending.streams:
            stream = self.streams[name]
            stream.pending = None
            if is_committed:
                stream.commit(self.table, pending.through)

    # The table

    def _insert(self, item: Insert) -> None:
        if len(self.table.rows) < MOST_ROWS:
            rows = self._keyed(item.rows)
            self._sql(
                f"INSERT INTO {{t}} ({self._names()}) SELECT /*+ COALESCE(1) */ *"
                f" FROM VALUES {self._literals(rows)}"
            )
            self._learn(rows)

    def _overwrite(self, item: Overwrite) -> None:
        rows = self._keyed(item.rows)
        self._sql(f"INSERT OVERWRITE {{t}} ({self._names()}) VALUES {self._literals(rows)}")
        self.table.delete(lambda row: True)
        self._learn(rows)

    def _update(self, item: Update) -> None:
        self._sql(f"UPDATE {{t}} SET {item.column} = {_literal(item.value)} WHERE {item.where}")
        self.table.update(item.where, lambda row: {item.column: item.value})
        self._record()

    def _updatenewestcolumn(self, item: UpdateNewestColumn) -> None:
        self._update(Update(item.where, self.table.columns[-1], item.value))

    def _delete(self, item: Delete) -> None:
        self._sql(f"DELETE FROM {{t}} WHERE {item.where}")
        self.table.delete(item.where)
        self._record()

    def _merge(self, item: Merge) -> None:
        rows = self._keyed(item.rows)
        matched = [
            {"k": row["k"], "v": item.value}
            for row in self.table.rows.values()
            if item.deleted(row) or item.updated(row)
        ]
        self._sql(
            f"MERGE INTO {{t}} t USING (SELECT * FROM VALUES {self._literals([*rows, *matched])}"
            f" AS q({self._names()})) q ON t.k = q.k"
            f" WHEN MATCHED AND t.{item.deleted} THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET v = q.v"
            " WHEN NOT MATCHED THEN INSERT *"
        )
        self.table.delete(item.deleted)
        self.table.update(item.updated, lambda row: {"v": item.value})
        self._learn(rows)

    def _sql(self, text: str) -> None:
        self.lab.sql(text)

    def _keyed(self, rows: tuple[Row, ...]) -> list[Row]:
        keyed = [{"k": self.next_key + index, **row} for index, row in enumerate(rows)]
        self.next_key += len(rows)
        return keyed

    def _names(self) -> str:
        return ", ".join(self.table.columns)

    def _literals(self, rows: list[Row]) -> str:
        return ", ".join(
            f"({', '.join(_literal(row.get(name)) for name in self.table.columns)})" for row in rows
        )

    def _learn(self, rows: list[Row]) -> None:
        """Read the row ids of the inserted ``rows`` from the table once."""
        ids = {row["k"]: row_id for row_id, row in self._stored().items()}
        version = self.lab.version("t")
        self.table.insert(version, {ids[row["k"]]: row for row in rows})
        self.table.record(version)

    def _record(self) -> None:
        self.table.record(self.lab.version("t"))

    def _stored(self) -> Rows:
        table = self.lab.spark.table(self.lab.name("t"))
        row_id = table.metadataColumn("_metadata").getField("row_id")
        found = table.select(row_id, *table.columns).collect()
        rows = {row[0]: dict(zip(table.columns, row[1:], strict=True)) for row in found}
        assert len(rows) == len(found)
        return rows

    def _check_table(self) -> None:
        expected = {
            row_id: {name: row.get(name) for name in self.table.columns}
            for row_id, row in self.table.rows.items()
        }
        assert self._stored() == expected

    def _check_targets(self) -> None:
        for name in (STANDARD, APPENDED):
            stream = self.streams[name]
            if stream.pending:
                continue
            found = Counter(
                Change(delta_row_id(row[0]), row[1], row[2], tuple(row[3:]))
                for row in self.lab.rows(f"log_{name}")
            )
            assert found == stream.consumed
        stream = self.streams[STANDARD]
        if stream.pending is None:
            held = self.lab.rows("mirror")
            end = self.table.history[stream.offset]
            order = ("k", "p", "v", "s")
            assert Counter((delta_row_id(row[0]), *row[1:]) for row in held) == Counter(
                (row_id, *end.values(row, order)) for row_id, row in end.rows.items()
            )

    def _count(self, what: str, steps: int = 1) -> None:
        if currently_in_test_context():
            event(what)
        StreamMachine.steps += steps


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)
