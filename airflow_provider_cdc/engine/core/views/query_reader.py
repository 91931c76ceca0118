"""Reads the query of one view, token by token, as relations over the names in it.

The reader follows Spark's grammar for the allowed clauses only, so it knows the place of
everything. Then the parser reads the text independently, and both readings must agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import TokenType

from ..errors import InvalidName
from ..names import loose_key, name_key, qualified_name
from .relations import FromItem, Leaf, Relation, Select, UnionAll, ViewDefinition
from .token_reader import TokenReader
from .unsupported_queries import (
    CLAUSES,
    TIME_TRAVEL,
    ViewText,
    check_expressions,
    check_second_reading,
    view_text,
)

_TIME_TRAVEL_IN_NAME = re.compile(r".*@([vV]\d+|\d{17})", re.DOTALL)
_GENERATED_ALIAS = "__cdc_item_"
_COLUMN_NAMES = ("column names after an alias", None, "", "name the columns in the sub-query")


def read_view(view: ViewDefinition, read_by: ViewDefinition | None) -> Relation:
    """The query of ``view`` as it is written. Its leaves may be views, and all leaves have the
    number 0.

    :param read_by: the view that reads it, for messages; ``None``: it is not nested
    :raises UnsupportedView: the query holds something that a stream cannot follow, or that is not
        understood
    :raises RecursionError: its sub-queries are nested too deeply
    """
    return _Reader(view_text(view, read_by)).read()


def folded(parts: tuple[str, ...]) -> tuple[str, ...]:
    """The form that all spellings of a name share. Names ignore case, as in Spark SQL."""
    return tuple(map(name_key, parts))


@dataclass(slots=True)
class _Scope:
    """What has been read of one SELECT, whose text starts at ``start``.

    ``names`` holds, for each item, the parts of its qualified name if columns may be qualified by
    it. ``spans`` holds the first and the last (exclusive) token of each expression.
    """

    start: int
    items: list[FromItem] = field(default_factory=list)
    names: list[tuple[str, ...]] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    is_natural: bool = False


class _Reader(TokenReader):
    """Reads the only query of a text from front to back. It does not number the leaves yet."""

    def __init__(self, source: ViewText) -> None:
        super().__init__(source)
        self._ctes: Mapping[str, Relation] = {}
        self._tables: list[tuple[str, ...]] = []
        self._selects = 0

    def read(self) -> Relation:
        relation = self._query()
        if self._at < len(self._source.tokens):
            raise self._unexpected()
        check_second_reading(self._source, self._tables, self._selects)
        return relation

    # --- queries

    def _query(self) -> Relation:
        outer = self._ctes
        if self._take("WITH"):
            self._common_tables()
        branches = [self._branch()]
        while self._word() == "UNION" and self._word(1) == "ALL":
            self._at += 2
            branches.append(self._branch())
        self._ctes = outer
        return branches[0] if len(branches) == 1 else UnionAll(tuple(branches))

    def _common_tables(self) -> None:
        if self._word() == "RECURSIVE" and self._word(1) not in ("AS", "("):
            raise self._refusal("a recursive CTE")
        names: set[str] = set()
        while True:
            first = self._at
            key = self._name()
            if loose_key(key) in names:
                raise self._refusal("two CTEs of the same name", first)
            names.add(loose_key(key))
            if self._word() == "(" and not self._opens_query(self._at):
                raise self._refusal(*_COLUMN_NAMES)
            self._take("AS")
            if not self._take("("):
                raise self._unexpected()
            relation = self._query()
            self._close()
            self._ctes = {**self._ctes, name_key(key): relation}
            if not self._take(","):
                return

    def _branch(self) -> Relation:
        if self._take("("):
            relation = self._query()
            self._close()
            return relation
        if self._word() == "SELECT":
            return self._select()
        if self._word() == "TABLE":
            return self._table_query()
        if self._word() == "FROM":
            raise self._refusal("a query that starts with FROM", fix="start it with SELECT")
        raise self._unexpected()

    def _table_query(self) -> Select:
        scope = self._scope()
        self._at += 1
        start = self._source.tokens[self._at].start if self._source.is_name(self._at) else 0
        relation, name, _ = self._table()
        text = self._text(scope)
        item = FromItem(start - scope.start, len(text), None, name, relation, in_star=True)
        return Select(text, (item,), len(text), (), frozenset())

    def _select(self) -> Select:
        scope = self._scope()
        select = self._at
        self._at += 1
        while self._source.kind(self._at) == TokenType.HINT:
            self._at += 1
        if self._word() == "DISTINCT" or (
            self._word() == "TOP" and self._source.kind(self._at + 1) == TokenType.NUMBER
        ):
            raise self._refusal(self._word())
        if self._word() == "ALL" and self._word(1) not in (",", ".", "FROM"):
            self._at += 1
        self._expression(scope, stars=True)
        end_of_list = self._at
        if self._word() in ("", ")", "UNION"):
            raise self._refusal("a SELECT without FROM", select)
        if not self._take("FROM"):
            raise self._unexpected()
        self._relation(scope)
        while self._take(","):
            self._relation(scope)
        if self._take("WHERE"):
            self._expression(scope)
        return Select(
            self._text(scope),
            self._starred(scope),
            self._end(end_of_list) - scope.start,
            tuple(self._dropped(scope)),
            frozenset(scope.functions),
            self._aliases(scope),
            scope.is_natural,
        )

    def _expression(self, scope: _Scope, *, stars: bool = False, one: bool = False) -> None:
        """Skip expressions with commas between them, or only one expression if ``one`` is true."""
        first = self._at
        depth = 0
        while self._at < len(self._source.tokens):
            found = self._word()
            if depth == 0 and (
                found in (")", "]", "}") or self._source.clause(self._at) or (one and found == ",")
            ):
                break
            depth += (found in ("(", "[", "{")) - (found in (")", "]", "}"))
            self._at += 1
        if self._at == first or self._source.word(self._at - 1) == ",":
            raise self._unexpected()
        scope.functions |= check_expressions(self._source, first, self._at, stars=stars)
        scope.spans.append((first, self._at))

    # --- relations

    def _relation(self, scope: _Scope) -> None:
        """Read a relation and the relations that are joined to it."""
        self._primary(scope)
        while True:
            is_natural = self._take("NATURAL")
            scope.is_natural |= is_natural
            is_named = self._take("INNER") or self._take("CROSS")
            if not self._take("JOIN"):
                if is_natural or is_named:
                    raise self._unexpected()
                return
            self._primary(scope)
            if self._take("ON"):
                self._expression(scope, one=True)
            elif self._take("USING"):
                self._columns()

    def _primary(self, scope: _Scope) -> None:
        first = self._at
        if self._word() != "(":
            self._item(scope, first, *self._table())
        elif self._opens_query(first):
            self._at += 1
            relation = self._query()
            self._close()
            self._item(scope, first, relation, "", ())
        else:
            self._at += 1
            self._relation(scope)
            self._close()
            alias = self._at
            if self._alias() is not None:
                fix = "give each table its own alias"
                raise self._refusal("an alias of a join", alias, fix=fix)

    def _table(self) -> tuple[Relation, str, tuple[str, ...]]:
        """Read the name of a table. Returns the relation that it names, its last part, and its
        qualified name, which is empty for a CTE.
        """
        first = self._at
        found = self._word()
        if found in CLAUSES and self._word(1) != ".":
            raise self._unexpected()
        follows = self._source.is_name(first + 1) and not self._source.clause(first + 1)
        if found == "STREAM" and follows:
            raise self._refusal("a streaming table")
        parts = [self._name()]
        while self._take("."):
            parts.append(self._name())
        if self._word() == "(":
            what = "an IDENTIFIER clause" if found == "IDENTIFIER" else "a table-valued function"
            raise self._refusal(what, first)
        self._tables.append(tuple(parts))
        common = self._ctes.get(name_key(parts[0])) if len(parts) == 1 else None
        if common is not None:
            return common, parts[0], ()
        if len(parts) == 1 and loose_key(parts[0]) in map(loose_key, self._ctes):
            raise self._refusal("a name that Spark reads as that of a CTE", first)
        qualified = self._qualified(tuple(parts), first)
        return Leaf(0, qualified), parts[-1], qualified

    def _qualified(self, parts: tuple[str, ...], first: int) -> tuple[str, ...]:
        if self._word() == "@" or _TIME_TRAVEL_IN_NAME.fullmatch(parts[-1]):
            raise self._refusal("time travel", first)
        try:
            if qualified_name(parts).is_path:
                return parts
        except InvalidName as error:
            raise self._refusal("an invalid table name", first, error.cause) from error
        if len(parts) > 1 and "/" in parts[-1]:
            raise self._refusal("files that are not a Delta table at an absolute path", first)
        namespace = self._source.view.namespace
        return namespace[: max(0, len(namespace) + 1 - len(parts))] + parts

    def _item(
        self, scope: _Scope, first: int, relation: Relation, name: str, qualified: tuple[str, ...]
    ) -> None:
        end = self._end(self._at) - scope.start
        alias = self._alias()
        label = alias or name or f"{_GENERATED_ALIAS}{len(scope.items) + 1}"
        if any(name_key(label) == name_key(item.label) for item in scope.items):
            what = f"two relations named {label} in one FROM"
            raise self._refusal(what, first, "", "give each an alias of its own")
        start = self._source.tokens[first].start - scope.start
        shown = None if alias else label
        scope.items.append(FromItem(start, end, shown, label, relation))
        scope.names.append(() if alias else folded(qualified))

    def _alias(self) -> str | None:
        if self._word() in TIME_TRAVEL and (self._word(1), self._word(2)) == ("AS", "OF"):
            raise self._refusal("time travel")
        if not self._take("AS") and (
            not self._source.is_name(self._at) or self._source.clause(self._at)
        ):
            return None
        alias = self._name()
        if self._word() == "(":
            raise self._refusal(*_COLUMN_NAMES)
        return alias

    def _columns(self) -> None:
        """Skip the columns of a USING."""
        if not self._take("("):
            raise self._unexpected()
        self._name()
        while self._take(","):
            self._name()
        self._close()

    # --- relations in the select list and in the conditions

    def _starred(self, scope: _Scope) -> tuple[FromItem, ...]:
        items = list(scope.items)
        for index in range(*scope.spans[0]):
            if not self._source.is_star(index):
                continue
            chain = self._chain_before(index)
            for number, item in enumerate(items):
                labels = ((), (name_key(item.label),))
                if chain in labels or (len(chain) > 1 and _ends_with(scope.names[number], chain)):
                    if item.in_star:
                        raise self._refusal(f"a second star for the columns of {item.label}", index)
                    items[number] = replace(item, in_star=True)
        return tuple(items)

    def _aliases(self, scope: _Scope) -> frozenset[str]:
        """The names that the select list defines and that later expressions in it begin with."""
        source = self._source
        given: set[str] = set()
        used: set[str] = set()
        for index in range(*scope.spans[0]):
            if source.is_name(index) and source.word(index - 1) != ".":
                name = name_key(source.tokens[index].text)
                if not source.expects_operand(index):
                    given.add(name)
                elif name in given:
                    used.add(name)
        return frozenset(used)

    def _chain_before(self, index: int) -> tuple[str, ...]:
        """The names with dots between them that qualify the star at ``index``."""
        names: list[str] = []
        while self._source.word(index - 1) == ".":
            index -= 2
            names.insert(0, name_key(self._source.tokens[index].text))
        return tuple(names)

    def _dropped(self, scope: _Scope) -> Iterator[tuple[int, int]]:
        tokens, source = self._source.tokens, self._source
        for index in (each for span in scope.spans for each in range(*span)):
            if not source.is_name(index) or source.word(index - 1) == ".":
                continue
            chain = [index]
            while source.word(chain[-1] + 1) == "." and source.is_name(chain[-1] + 2):
                chain.append(chain[-1] + 2)
            names = folded(tuple(tokens[each].text for each in chain))
            has_star = source.kind(chain[-1] + 2) == TokenType.STAR and source.is_star(
                chain[-1] + 2
            )
            for count in range(len(chain) - (not has_star), 1, -1):
                if any(_ends_with(name, names[:count]) for name in scope.names):
                    start, end = tokens[index].start, tokens[chain[count - 1]].start
                    yield start - scope.start, end - scope.start
                    break

    # --- tokens

    def _scope(self) -> _Scope:
        self._selects += 1
        return _Scope(self._source.tokens[self._at].start)

    def _text(self, scope: _Scope) -> str:
        return self._source.view.text[scope.start : self._end(self._at)]


def _ends_with(name: tuple[str, ...], chain: tuple[str, ...]) -> bool:
    return name[-len(chain) :] == chain
