"""Where each column of a query comes from, by the syntax tree of the query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope, traverse_scope, walk_in_scope

from ..names import name_key

_DIALECT = Databricks()
# With a table of known columns, sqlglot does not guess the table of a column.
_KNOWN_TABLE: dict[str, object] = {"no table": {"no column": "string"}}
_CONDITIONS = (
    ("where", "filter"),
    ("having", "filter"),
    ("qualify", "filter"),
    ("group", "group_by"),
)


class Use(StrEnum):
    """How a query uses a column that it reads: for a value, or only to decide about values or rows.

    The values are the subtypes of transformations in OpenLineage, in lower case.
    """

    IDENTITY = "identity"
    TRANSFORMATION = "transformation"
    AGGREGATION = "aggregation"
    CONDITIONAL = "conditional"
    WINDOW = "window"
    FILTER = "filter"
    JOIN = "join"
    GROUP_BY = "group_by"

    @property
    def is_direct(self) -> bool:
        """Whether values are made of the column."""
        return self in (Use.IDENTITY, Use.TRANSFORMATION, Use.AGGREGATION)

    def of(self, inner: Use) -> Use:
        """The use of a column that an inner query uses as ``inner``, and an outer one as this."""
        if not self.is_direct:
            return self
        if not inner.is_direct:
            return inner
        return max(self, inner, key=[*Use].index)


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A ``column`` of a table or stream that a query reads, and how it uses it.

    ``table`` are the parts of the name that the query has for it.
    """

    table: tuple[str, ...]
    column: str
    use: Use = Use.IDENTITY


Inputs = tuple[InputColumn, ...]


@dataclass(frozen=True, slots=True)
class Traced:
    """What a query reads.

    ``outputs`` are its columns: the name of each, and what its values are made of. That is ``None``
    if the text does not show it. ``is_complete`` is false if the query has a ``*`` whose columns
    are not known. ``rows`` are the columns that decide which rows it returns. ``tables`` are the
    names of all tables and streams that it reads.
    """

    outputs: tuple[tuple[str, Inputs | None], ...] = ()
    is_complete: bool = True
    rows: Inputs = ()
    tables: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a table or stream.

    ``columns`` are those of the table, or of the table that the stream is on; ``None``: they are
    not known. ``metadata`` are the further columns of a stream, which come from no table; ``None``:
    it is a table.
    """

    columns: tuple[str, ...] | None = None
    metadata: tuple[str, ...] | None = None


def trace(query: exp.Query, known: Callable[[tuple[str, ...]], Known]) -> Traced:
    """Where the columns of ``query`` come from.

    :param known: the columns of each table or stream that the query reads, by the parts of its name
    """
    spellings = {name_key(each.name): each.name for each in query.find_all(exp.Identifier)}
    tree = normalize_identifiers(query.copy(), dialect=_DIALECT)
    reads: dict[str, _Read] = {}
    for scope in traverse_scope(tree):
        for table in scope.tables:
            if isinstance(scope.sources.get(table.alias_or_name), exp.Table):
                _rename(table, reads, spellings, known)
    schema = dict(_KNOWN_TABLE)
    for name, read in reads.items():
        if read.known.columns is not None:
            columns = (*read.known.columns, *(read.known.metadata or ()))
            schema[name] = {name_key(column): "string" for column in columns}
    try:
        tree = qualify(
            tree,
            dialect=_DIALECT,
            schema=schema,
            validate_qualify_columns=False,
            allow_partial_qualification=True,
            quote_identifiers=False,
            identify=False,
        )
    except SqlglotError:
        # A column may be one of several tables.
        return Traced(is_complete=False, tables=_names(reads))
    top = build_scope(tree)
    if top is None:
        return Traced(is_complete=False, tables=_names(reads))
    return _Tracer(reads, spellings).traced(top)


def used(use: Use, inputs: Iterable[InputColumn]) -> Inputs:
    """``inputs`` of an inner query, if an outer one uses what is made of them as ``use``."""
    return tuple(replace(each, use=use.of(each.use)) for each in inputs)


@dataclass(frozen=True, slots=True)
class _Read:
    """A table or stream in the tree: its name in the text, and what is known of it."""

    parts: tuple[str, ...]
    known: Known


def _rename(
    table: exp.Table,
    reads: dict[str, _Read],
    spellings: Mapping[str, str],
    known: Callable[[tuple[str, ...]], Known],
) -> None:
    """Give ``table`` a name of one part that no other table has."""
    keys = tuple(part.name for part in table.parts)
    parts = tuple(spellings.get(key, key) for key in keys)
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(keys[-1])))
    name = f"table {len(reads)}"
    reads[name] = _Read(parts, known(parts))
    for part in ("db", "catalog"):
        table.set(part, None)
    table.set("this", exp.to_identifier(name, quoted=True))


class _Tracer:
    """Follows columns through the scopes of one query."""

    def __init__(self, reads: Mapping[str, _Read], spellings: Mapping[str, str]) -> None:
        self._reads = reads
        self._spellings = spellings
        self._open: set[tuple[int, int]] = set()

    def traced(self, top: Scope) -> Traced:
        """What the query of ``top`` reads."""
        selects = _selects(top) or []
        outputs = tuple(
            (self._spelling(select.alias_or_name), self._output(top, place))
            for place, select in enumerate(selects)
            if not select.is_star
        )
        rows = [each for scope in top.traverse() for each in self._conditions(scope)]
        return Traced(
            outputs,
            is_complete=bool(selects) and len(outputs) == len(selects),
            rows=tuple(dict.fromkeys(rows)),
            tables=_names(self._reads),
        )

    def _output(self, scope: Scope, place: int) -> Inputs | None:
        """What the column at ``place`` of the query of ``scope`` is made of."""
        if scope.set_operation_scopes:
            sides = [self._output(side, place) for side in scope.set_operation_scopes]
            return _together(sides)
        selects = _selects(scope)
        key = (id(scope), place)
        if selects is None or place >= len(selects) or scope.pivots:
            return None
        if any(select.is_star for select in selects[: place + 1]):
            return None
        if key in self._open:
            # A recursive query reads itself here, which adds no table.
            return ()
        self._open.add(key)
        try:
            return self._made_of(selects[place].unalias(), scope)
        finally:
            self._open.remove(key)

    def _made_of(self, expression: exp.Expr, scope: Scope) -> Inputs | None:
        found = []
        for node in walk_in_scope(expression):
            if isinstance(node, exp.Column):
                inputs = self._column(node, scope)
            elif isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
                inputs = self._subquery(node, scope)
            else:
                continue
            use = _use_in(expression, node)
            found.append(None if inputs is None else used(use, inputs))
        return _together(found)

    def _subquery(self, query: exp.Query, scope: Scope) -> Inputs | None:
        if isinstance(query.parent, exp.Exists):
            return ()
        for inner in scope.subquery_scopes:
            if inner.expression is query:
                places = range(len(_selects(inner) or ()))
                found = _together(self._output(inner, place) for place in places)
                return None if found is None else used(Use.TRANSFORMATION, found)
        return None

    def _column(self, column: exp.Column, scope: Scope) -> Inputs | None:
        source = _source_of(column, scope)
        if isinstance(source, exp.Table):
            return self._leaf(source, column.name)
        if not isinstance(source, Scope):
            return None
        names = [select.alias_or_name for select in _selects(source) or ()]
        if column.name not in names:
            return None
        return self._output(source, names.index(column.name))

    def _leaf(self, table: exp.Table, name: str) -> Inputs | None:
        read = self._reads.get(table.name)
        if read is None:
            return None
        columns, metadata = read.known.columns, read.known.metadata
        if columns is None:
            is_table = metadata is None
            return (InputColumn(read.parts, self._spelling(name)),) if is_table else None
        for column in columns:
            if name_key(column) == name:
                return (InputColumn(read.parts, column),)
        return None if metadata is None else ()

    def _conditions(self, scope: Scope) -> Iterator[InputColumn]:
        """The columns that decide which rows the query of ``scope`` returns."""
        query = scope.expression
        if not isinstance(query, exp.Select):
            return
        found = [(query.args.get(arg), Use(use)) for arg, use in _CONDITIONS]
        found += [(join.args.get("on"), Use.JOIN) for join in query.args.get("joins") or ()]
        for condition, use in found:
            if condition is not None:
                for inputs in self._each_column(condition, scope):
                    yield from used(use, inputs)

    def _each_column(self, condition: exp.Expr, scope: Scope) -> Iterator[Inputs]:
        for node in walk_in_scope(condition):
            if isinstance(node, exp.Column):
                yield self._column(node, scope) or ()
            elif isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
                yield self._subquery(node, scope) or ()

    def _spelling(self, name: str) -> str:
        return self._spellings.get(name, name)


def _source_of(column: exp.Column, scope: Scope) -> exp.Expr | Scope | None:
    """What ``column`` belongs to; ``None`` if the text does not show it."""
    if not column.table:
        # The only table of a query has its columns. Where an outer query may have them, qualify()
        # refuses the query.
        sources = [source for _, source in scope.selected_sources.values()]
        return sources[0] if len(sources) == 1 else None
    place: Scope | None = scope
    while place is not None:
        if column.table in place.sources:
            return cast("exp.Expr | Scope", place.sources[column.table])
        place = place.parent
    return None


def _selects(scope: Scope) -> Sequence[exp.Expr] | None:
    query = scope.expression
    if scope.is_udtf or not isinstance(query, exp.Select | exp.SetOperation):
        return None
    return cast("Sequence[exp.Expr]", query.selects)


def _use_in(expression: exp.Expr, node: exp.Expr) -> Use:
    """How ``expression`` uses the part ``node`` of it."""
    if node is expression:
        return Use.IDENTITY
    use = Use.TRANSFORMATION
    while node is not expression and node.parent is not None:
        parent = node.parent
        if node.arg_key == "this" and isinstance(parent, exp.If | exp.Case):
            return Use.CONDITIONAL
        if node.arg_key in ("partition_by", "order") and isinstance(parent, exp.Window):
            return Use.WINDOW
        if isinstance(parent, exp.AggFunc):
            use = Use.AGGREGATION
        node = parent
    return use


def _together(found: Iterable[Inputs | None]) -> Inputs | None:
    """All of ``found``, each once; ``None`` if one of them is not known."""
    every: dict[InputColumn, None] = {}
    for inputs in found:
        if inputs is None:
            return None
        every.update(dict.fromkeys(inputs))
    return tuple(every)


def _names(reads: Mapping[str, _Read]) -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(read.parts for read in reads.values()))
