"""The ports of the consumption protocol without Spark: DuckDB runs the SQL, delta-rs commits it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.transaction import AddAction, Transaction
from sqlglot import exp, parse_one
from sqlglot.dialects import Spark

from airflow_provider_cdc.engine.consumption.ports import Failure
from airflow_provider_cdc.engine.consumption.statement_errors import refused
from airflow_provider_cdc.engine.consumption.stream_outcomes import stream_outcome
from airflow_provider_cdc.engine.core.change_sets.read_plan import ReadPlan, Strategy
from airflow_provider_cdc.engine.core.consumption.source_notes import TakenVersions, noted
from airflow_provider_cdc.engine.core.errors import TableNotFound
from airflow_provider_cdc.engine.core.model.outcomes import StreamOutcome
from airflow_provider_cdc.engine.core.model.tables import Table
from airflow_provider_cdc.engine.core.names import TableName
from airflow_provider_cdc.engine.core.sql.statements import Statement, text_to_run
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.sources.source_log import StreamSpan


class Ansi(Spark):
    """Spark SQL in ANSI mode: a cast fails if a value does not fit."""

    class Parser(Spark.Parser):
        STRICT_CAST = True


# Each use has a cursor with temporary tables of its own: a new database costs 40 ms.
DUCKDB = duckdb.connect()
_METADATA = ("METADATA$ACTION", "METADATA$ISUPDATE", "METADATA$ROW_ID")
_READ = ReadPlan(Strategy.FILE_DIFFERENCE, 0, 0, 0, "a reader of tests")


class Views(dict[str, pa.Table]):
    """The rows of each view."""


@dataclass
class DeltaRsWriter:
    """A :class:`StatementWriter` for tables at paths. With ``is_ansi`` false, a value that a cast
    does not accept becomes NULL, as in a session of Spark without ANSI mode.
    """

    views: Views
    is_ansi: bool = True

    def failure(self, error: Exception) -> Failure:
        return Failure(
            reason=str(error),
            has_ended=True,
            table_exists="already exists" in str(error),
        )

    def default_source(self) -> str | None:
        return "delta"

    def check(self, statement: Statement, views: Mapping[str, str]) -> None:
        text = text_to_run(statement, views, created=False)
        try:
            self._executed(text, is_check=True)
        except duckdb.Error as error:
            raise refused(statement, str(error).partition("\n")[0], text) from None

    def run(
        self, text: str, location: str, app_id: str, version: int, taken: Sequence[TakenVersions]
    ) -> None:
        if not self._is_recorded(location, app_id, version):
            mark = noted(None, taken)
            self._executed(text, transaction=Transaction(app_id, version), mark=mark)

    def record(
        self,
        location: str,
        app_id: str,
        version: int,
        taken: Sequence[TakenVersions] | None = None,
    ) -> None:
        if self._is_recorded(location, app_id, version):
            return
        nothing = DeltaTable(location).to_pyarrow_table().slice(0, 0)
        mark = None if taken is None else noted(None, taken)
        _commit(location, nothing, "append", transaction=Transaction(app_id, version), mark=mark)

    def restore(self, location: str, version: int, mark: str) -> None:
        restore(DeltaTable(location), version, mark)

    def create(self, text: str, mark: str) -> None:
        self._executed(text, mark=mark)

    def execute(self, text: str) -> None:
        """Run a statement that is part of no consumption."""
        self._executed(text)

    def _is_recorded(self, location: str, app_id: str, version: int) -> bool:
        recorded = DeltaTable(location).transaction_version(app_id)
        return recorded is not None and recorded >= version

    def _executed(
        self,
        text: str,
        *,
        transaction: Transaction | None = None,
        mark: str | None = None,
        is_check: bool = False,
    ) -> None:
        tree = parse_one(text, dialect=Ansi)
        if not self.is_ansi:
            tree = tree.transform(_lenient)
        with DUCKDB.cursor() as db:
            location = target_of(tree).name
            if isinstance(tree, exp.Create):
                _load(db, tree.expression, self.views)
                query = tree.expression.sql("duckdb")
                if is_check:
                    db.execute(f"EXPLAIN {query}")
                    return
                rows = db.sql(query).to_arrow_table()
                mode = "replace" if tree.args.get("replace") else "error"
                _commit(location, rows, mode, transaction=transaction, mark=mark)
                return
            if is_overwrite := bool(tree.args.get("overwrite")):
                tree.set("overwrite", False)
            is_insert = isinstance(tree, exp.Insert)
            held = DeltaTable(location).to_pyarrow_table()
            start = held.slice(0, 0) if is_insert else held
            rows = rows_after(db, tree, start, self.views, is_check=is_check)
            if is_check or (isinstance(tree, exp.Delete) and rows.num_rows == held.num_rows):
                return  # Spark does not commit a DELETE that matches no row.
            mode = "append" if is_insert and not is_overwrite else "overwrite"
            _commit(location, rows, mode, transaction=transaction, mark=mark)


def rows_after(
    db: duckdb.DuckDBPyConnection,
    tree: exp.Expression,
    start: pa.Table,
    views: Views,
    *,
    is_check: bool = False,
) -> pa.Table:
    """The rows that the statement ``tree`` makes of the rows ``start`` of its target.

    :param is_check: only plan the statement
    """
    place = target_of(tree)
    db.register("held", start)
    db.execute("CREATE TEMP TABLE target AS FROM held")
    place.replace(exp.to_table("target", alias=place.alias or None))
    _load(db, tree, views)
    db.execute(f"{'EXPLAIN ' if is_check else ''}{tree.sql('duckdb')}")
    return db.sql("FROM target").to_arrow_table()


def restore(table: DeltaTable, version: int, mark: str) -> None:
    """Commit a RESTORE with ``mark`` as user metadata."""
    table.restore(
        version, commit_properties=CommitProperties(custom_metadata={"userMetadata": mark})
    )


def target_of(tree: exp.Expression) -> exp.Table:
    """The table that a statement writes to."""
    found = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    assert isinstance(found, exp.Table)
    return found


def _load(db: duckdb.DuckDBPyConnection, tree: exp.Expression, views: Views) -> None:
    """Give the views and tables that ``tree`` reads to DuckDB, and name the tables in it."""
    for number, table in enumerate(list(tree.find_all(exp.Table))):
        if table.name in views:
            db.register(table.name, views[table.name])
        elif table.db == "delta":
            db.register(f"read{number}", DeltaTable(table.name).to_pyarrow_table())
            table.replace(exp.to_table(f"read{number}", alias=table.alias or None))


def _lenient(node: exp.Expression) -> exp.Expression:
    is_cast = isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast)
    return exp.TryCast(this=node.this, to=node.to) if is_cast else node


def _commit(
    location: str,
    rows: pa.Table,
    mode: str,
    *,
    transaction: Transaction | None = None,
    mark: str | None = None,
) -> None:
    properties = CommitProperties(
        custom_metadata={"userMetadata": mark} if mark else None,
        app_transactions=[transaction] if transaction else None,
    )
    if mode in ("replace", "error"):
        write_deltalake(
            location,
            rows,
            mode="overwrite" if mode == "replace" else "error",
            schema_mode="overwrite" if mode == "replace" else None,
            commit_properties=properties,
        )
        return
    table = DeltaTable(location)
    table.create_write_transaction(
        _written(location, rows), mode, rows.schema, commit_properties=properties
    )


def _written(location: str, rows: pa.Table) -> list[AddAction]:
    """The action for a new file of ``rows``; none if there are no rows."""
    if not rows.num_rows:
        return []
    name = f"part-{uuid.uuid4()}.parquet"
    file = Path(location, name)
    pq.write_table(rows, file)
    stats = json.dumps({"numRecords": rows.num_rows})
    return [AddAction(name, file.stat().st_size, {}, int(time.time() * 1000), True, stats)]


class PathTables:
    """Finds tables at paths."""

    def find(self, name: TableName) -> Table | None:
        assert name.path is not None
        if not DeltaLog(name.path, Files()).is_begun:
            return None
        return Table(name.sql, name.sql, name.path)

    def get(self, name: TableName) -> Table:
        if (table := self.find(name)) is None:
            raise TableNotFound(f"table {name.sql}", "does not exist")
        return table


@dataclass(frozen=True)
class OpenRows:
    """Open change sets, whose rows are in memory."""

    names: Mapping[str, str]
    spans: Sequence[StreamSpan]
    rows: Mapping[str, pa.Table]

    @property
    def plans(self) -> Sequence[Sequence[ReadPlan]]:
        return [(_READ,) * len(span.tables) for span in self.spans]

    def outcomes(self) -> tuple[StreamOutcome, ...]:
        return tuple(
            stream_outcome(span, plans, _counts(self.rows[self.names[span.stream.name]]))
            for span, plans in zip(self.spans, self.plans, strict=True)
        )


@dataclass(frozen=True)
class RowDifferences:
    """A :class:`ChangeSetViews` that compares all rows of both ends of a range, by value."""

    views: Views

    @contextmanager
    def open(
        self, spans: Sequence[StreamSpan], *, are_read_once: bool = False
    ) -> Iterator[OpenRows]:
        names = {span.stream.name: f"cdc_{uuid.uuid4().hex}" for span in spans}
        opened = {names[span.stream.name]: _changes(span) for span in spans}
        self.views.update(opened)
        try:
            yield OpenRows(names, spans, opened)
        finally:
            for name in opened:
                del self.views[name]


def _changes(span: StreamSpan) -> pa.Table:
    (table,) = span.tables
    location = table.stream.source.location
    old, new = (
        DeltaTable(location, version=end.version).to_pyarrow_table()
        for end in (table.start, table.end)
    )
    with DUCKDB.cursor() as db:
        db.register("old", old)
        db.register("new", new)
        action, is_update, row_id = map(exp.to_identifier, _METADATA)
        sides = (("DELETE", "old", "new"), ("INSERT", "new", "old"))
        text = " UNION ALL ".join(
            f'SELECT *, \'{kind}\' AS "{action.name}", false AS "{is_update.name}",'
            f' hash(c)::VARCHAR AS "{row_id.name}"'
            f" FROM (SELECT * FROM {side} EXCEPT ALL SELECT * FROM {other}) c"
            for kind, side, other in sides
        )
        return db.sql(text).to_arrow_table()


def _counts(rows: pa.Table) -> dict[str, int]:
    actions = rows[_METADATA[0]].to_pylist()
    return {
        "inserted": actions.count("INSERT"),
        "updated": 0,
        "deleted": actions.count("DELETE"),
    }
