"""Which columns each column of a statement's target comes from, where the text shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..errors import CdcError
from ..model.stream import METADATA_COLUMNS, ColumnStyle
from ..names import TableName, name_key, qualified_name
from .column_tracing import InputColumn, Inputs, Known, Traced, Use, trace, used
from .insert_clauses import insert_clauses, insert_first
from .statements import Statement, analyse, one_statement, verb_of
from .stream_references import parse

_NOTHING = exp.select("1")


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """What a statement reads for its target.

    ``columns`` are the columns of the target whose origin the text shows, each with the columns
    that its values are made of, or that decide about them. ``rows`` are the columns that decide
    which rows are written. ``tables`` are the names of what it reads besides streams and its
    target. An :class:`InputColumn` of a stream has the registered name of the stream as its table.
    """

    columns: Mapping[str, Inputs] = field(default_factory=dict)
    rows: Inputs = ()
    tables: tuple[TableName, ...] = ()


def column_lineage(
    sql: str,
    streams: Mapping[str, Sequence[str] | None],
    target_columns: Sequence[str] | None = None,
) -> ColumnLineage:
    """Which columns each column of the target of ``sql`` comes from.

    A column whose origin the text does not show is left out. So is one that is made of constants or
    of metadata columns only.

    :param streams: the streams that ``sql`` may read, by their registered names, each with the
        columns of the table that it is on; ``None``: they are not known
    :param target_columns: the columns of the target in order; ``None``: they are not known
    """
    try:
        statement = analyse(sql, streams)
        return _Statement(sql, statement, streams, target_columns).lineage()
    except (CdcError, SqlglotError, RecursionError):
        return ColumnLineage()


_Assignment = tuple[str, Inputs | None]


class _Statement:
    """One statement, taken apart into queries that return what its target gets."""

    def __init__(
        self,
        sql: str,
        statement: Statement,
        streams: Mapping[str, Sequence[str] | None],
        target_columns: Sequence[str] | None,
    ) -> None:
        self._statement = statement
        self._streams = {name_key(name): (name, each) for name, each in streams.items()}
        self._target_columns = target_columns
        self._tree = _tree(sql, statement)
        self._metadata = _metadata_columns(sql)
        self._queries: list[Traced] = []

    def lineage(self) -> ColumnLineage:
        """The lineage of the columns of the target."""
        found: dict[str, dict[InputColumn, None]] = {}
        unknown = set()
        spellings = {name_key(each): each for each in self._target_columns or ()}
        for name, inputs in self._assignments():
            column = spellings.get(name_key(name)) if spellings else name
            if inputs is None:
                unknown.add(column)
            elif column is not None:
                kept = (each for each in inputs if not self._is_itself(each, column))
                found.setdefault(column, {}).update(dict.fromkeys(self._named(kept)))
        rows = (each for query in self._queries for each in query.rows)
        foreign = (each for each in rows if not self._is_target(each.table))
        tables = (table for query in self._queries for table in query.tables)
        others = (each for each in tables if not self._is_target(each) and not self._stream(each))
        return ColumnLineage(
            {name: tuple(each) for name, each in found.items() if each and name not in unknown},
            tuple(dict.fromkeys(self._named(foreign))),
            tuple(dict.fromkeys(map(qualified_name, others))),
        )

    def _assignments(self) -> Iterator[_Assignment]:
        tree = self._tree
        match tree:
            case exp.Insert():
                yield from self._inserted(tree)
            case exp.Merge():
                yield from self._merged(tree)
            case exp.Update():
                rows = exp.select().from_(tree.this.copy())
                yield from self._set(tree.expressions, _filtered(rows, tree.args.get("where")))
            case exp.Delete():
                rows = _NOTHING.from_(tree.this.copy())
                self._trace(_filtered(rows, tree.args.get("where")))
            case exp.Query():
                yield from self._trace(tree).outputs

    def _inserted(self, tree: exp.Insert) -> Iterator[_Assignment]:
        query = tree.expression
        if not isinstance(query, exp.Query):
            return
        if with_ := tree.args.get("with_"):
            query = query.copy()
            query.set("with_", with_.copy())
        traced = self._trace(query)
        if tree.args.get("by_name"):
            yield from traced.outputs
            return
        names = self._target_columns
        if isinstance(tree.this, exp.Schema):
            names = [column.name for column in tree.this.expressions]
        elif tree.this.args.get("partition"):
            names = None
        if names is not None and traced.is_complete and len(names) == len(traced.outputs):
            for name, (_, inputs) in zip(names, traced.outputs, strict=True):
                yield name, inputs

    def _merged(self, tree: exp.Merge) -> Iterator[_Assignment]:
        source, target = tree.args["using"], tree.this
        both = exp.select().from_(source.copy()).join(target.copy(), join_type="cross")
        self._trace(_NOTHING.from_(source.copy()).join(target.copy(), on=tree.args["on"].copy()))
        for when in tree.args["whens"].expressions:
            then, rows = when.args["then"], both
            if not when.args.get("matched"):
                of_target = when.args.get("source")
                rows = exp.select().from_((target if of_target else source).copy())
            rows = _filtered(rows, when.args.get("condition"))
            if isinstance(then, exp.Insert) and not isinstance(then.this, exp.Star):
                names = then.this.expressions
                values = then.expression.expressions
                pairs = [
                    exp.EQ(this=name.copy(), expression=value.copy())
                    for name, value in zip(names, values, strict=True)
                ]
                yield from self._set(pairs, rows)
            elif isinstance(then, exp.Insert) or _is_star(then):
                yield from self._every_column(source)
                self._trace(rows.select("1"))
            elif isinstance(then, exp.Update):
                yield from self._set(then.expressions, rows)
            else:
                self._trace(rows.select("1"))

    def _every_column(self, source: exp.Expr) -> Iterator[_Assignment]:
        """What each column gets if all columns of ``source`` are written."""
        traced = self._trace(exp.select("*").from_(source.copy()))
        own = set(map(name_key, self._target_columns or ()))
        if traced.is_complete:
            yield from (each for each in traced.outputs if name_key(each[0]) in own)

    def _set(self, assignments: Sequence[exp.Expr], rows: exp.Select) -> Iterator[_Assignment]:
        """What columns get that are set to expressions over ``rows``."""
        pairs = [each for each in assignments if isinstance(each, exp.EQ)]
        query = rows.select(
            *(exp.alias_(each.expression.copy(), f"_{place}") for place, each in enumerate(pairs))
        )
        if not pairs:
            return
        traced = self._trace(query)
        known = [inputs for _, inputs in traced.outputs] if traced.is_complete else repeat(None)
        for pair, inputs in zip(pairs, known, strict=False):
            column, *fields = self._target_path(pair.this)
            if not fields or inputs is None:
                yield column, inputs
            else:
                yield column, used(Use.TRANSFORMATION, inputs)

    def _target_path(self, column: exp.Expr) -> list[str]:
        """The name of a column of the target, and of the fields in it, that are written."""
        parts = [each.name for each in column.find_all(exp.Identifier)]
        if isinstance(column, exp.Column | exp.Dot):
            parts = [each.name for each in column.parts]
        table = self._tree.this
        names = [part.name for part in table.parts]
        for prefix in ([table.alias], names, names[-1:]):
            size = len(prefix)
            if len(parts) > size and [*map(name_key, parts[:size])] == [*map(name_key, prefix)]:
                return parts[size:]
        return parts

    def _trace(self, query: exp.Query) -> Traced:
        traced = trace(query, self._known)
        self._queries.append(traced)
        return traced

    def _known(self, parts: tuple[str, ...]) -> Known:
        if (found := self._stream(parts)) is not None:
            columns = None if self._metadata is None else found[1]
            return Known(None if columns is None else tuple(columns), self._metadata or ())
        columns = self._target_columns if self._is_target(parts) else None
        return Known(None if columns is None else tuple(columns))

    def _stream(self, parts: tuple[str, ...]) -> tuple[str, Sequence[str] | None] | None:
        """The registered name of the stream that ``parts`` name, and the columns of its table."""
        return self._streams.get(name_key(parts[0])) if len(parts) == 1 else None

    def _named(self, inputs: Iterable[InputColumn]) -> Iterator[InputColumn]:
        """``inputs`` with the registered names of streams."""
        for each in inputs:
            found = self._stream(each.table)
            yield each if found is None else replace(each, table=(found[0],))

    def _is_target(self, parts: tuple[str, ...]) -> bool:
        name = qualified_name(parts)
        return name_key(name.sql) == name_key(self._statement.target.sql)

    def _is_itself(self, found: InputColumn, column: str) -> bool:
        """Whether ``found`` is the unchanged value of the target's ``column``."""
        is_same = name_key(found.column) == name_key(column)
        return is_same and found.use is Use.IDENTITY and self._is_target(found.table)


def _tree(sql: str, statement: Statement) -> exp.Expr:
    """The syntax tree of ``sql``; of a CREATE TABLE ... AS that of its query."""
    text, tokens = one_statement(sql if statement.create is None else statement.create.query)
    clauses = insert_clauses(tokens, verb_of(tokens))
    return parse(text, insert_first(tokens, clauses[0]) if clauses else tokens)


def _metadata_columns(sql: str) -> tuple[str, ...] | None:
    """The metadata columns of the streams in ``sql``, by the names that it has for them.

    ``None``: it names those of both styles.
    """
    text = name_key(sql)
    found = [
        (columns.action, columns.is_update, columns.row_id)
        for columns in METADATA_COLUMNS.values()
        if any(
            name_key(each) in text for each in (columns.action, columns.is_update, columns.row_id)
        )
    ]
    if len(found) > 1:
        return None
    default = METADATA_COLUMNS[ColumnStyle.SNOWFLAKE]
    return found[0] if found else (default.action, default.is_update, default.row_id)


def _is_star(then: exp.Expr) -> bool:
    return isinstance(then, exp.Update) and any(
        isinstance(each, exp.Star) for each in then.expressions
    )


def _filtered(rows: exp.Select, condition: exp.Expr | None) -> exp.Select:
    if condition is None:
        return rows
    found = condition.this if isinstance(condition, exp.Where) else condition
    return rows.where(found.copy())
