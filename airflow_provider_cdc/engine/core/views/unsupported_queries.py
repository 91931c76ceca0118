"""Refuses the clauses, functions and sub-queries that the query of a view may not hold.

The errors give their names and positions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from ..errors import InvalidStatement, UnsupportedView
from ..names import name_key
from ..sql.stream_references import parse, tokenise, word
from .relations import BINARY, ViewDefinition
from .unstable_functions import REFUSED_FUNCTIONS, WITHOUT_PARENTHESES, keyword_set
from .view_settings import CASE_SENSITIVE, NAMES_AS_PATTERNS

# The words that can follow a complete expression or relation, and so cannot be an alias without AS.
CLAUSES = {
    **{name: f"{name} BY" for name in ("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE")},
    **{name: f"a {name} JOIN" for name in ("LEFT", "RIGHT", "FULL", "SEMI")},
    **{name: f"an {name} JOIN" for name in ("ANTI", "ASOF")},
    **{
        name: name
        for name in (
            *("HAVING", "QUALIFY", "WINDOW", "LIMIT", "OFFSET", "FETCH", "TOP", "LATERAL", "PIVOT"),
            *("UNPIVOT", "TABLESAMPLE", "INTERSECT", "EXCEPT", "MINUS", "VALUES", "WATERMARK"),
            *("CHANGES", "MATCH_RECOGNIZE"),
        )
    },
    "OUTER": "an outer join",
    "APPROX": "a NEAREST BY join",
    "EXACT": "a NEAREST BY join",
    "NEAREST": "a NEAREST BY join",
    "UNION": "UNION, which removes duplicates",
    "|>": "pipe syntax",
    "FOR": "time travel",
    "SELECT": "SELECT where no query is allowed",
    "DISTINCT": "DISTINCT",
    **dict.fromkeys(
        ("FROM", "WHERE", "JOIN", "INNER", "CROSS", "NATURAL", "ON", "USING", "WITH"), ""
    ),
    ";": "a semicolon",
}
TIME_TRAVEL = ("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME")

_BEFORE_OPERANDS = keyword_set(
    """ALL AND BETWEEN CASE DIV ELSE ILIKE IN LIKE NOT ON OR REGEXP RLIKE SELECT THEN WHEN
    WHERE"""
)
_NO_FUNCTIONS = _BEFORE_OPERANDS | keyword_set(
    """AS BOTH ESCAPE EXCEPT FOR FROM INTERVAL LEADING PLACING TRAILING USING"""
)
_AFTER_CALL = {
    "OVER": "a window function",
    "FILTER": "an aggregate with FILTER",
    "WITHIN": "an aggregate with WITHIN GROUP",
    "IGNORE": "a window function or an aggregate with IGNORE NULLS",
    "RESPECT": "a window function or an aggregate with RESPECT NULLS",
}
_STAR_EXCEPT = ("EXCEPT", "(")
_SUBQUERIES = ("FROM", "TABLE", "VALUES", "WITH")
_NO_ALIAS_OF_THEIR_OWN = ("FROM", "SELECT", "WHERE")
_REFUSED_SETTINGS = ((CASE_SENSITIVE, "true"), (NAMES_AS_PATTERNS, "true"))
_MARKERS = (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.SESSION_PARAMETER)
_LITERALS = (
    *(TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER, TokenType.HEX_STRING),
    *(TokenType.BYTE_STRING, TokenType.BIT_STRING, TokenType.NATIONAL_STRING),
)
_MOMENT = re.compile(
    r"\s*(now|today|tomorrow|yesterday)\s*(z|[a-z]{3}|(utc|gmt|ut)?[+-]\S+|\w+/\S+)?\s*",
    re.IGNORECASE,
)
# As a timestamp, such a text means a time on the day of the query.
_TIME_OF_DAY = re.compile(
    r"\s*(T\d{1,2}(:\d{1,2}.*)?|\d{1,2}:\d{1,2}(:\d{1,2}(\.\d*)?\s*\S*)?)\s*", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_QUOTED_CHARACTERS = 30

_ALLOWED_NODES = (
    *(exp.Condition, exp.Identifier, exp.Alias, exp.Star, exp.Var, exp.Tuple, exp.Lambda),
    *(exp.Interval, exp.IntervalSpan, exp.DataType, exp.DataTypeParam, exp.ColumnDef),
    *(exp.AtTimeZone, exp.FromTimeZone, exp.JSONPath, exp.JSONPathPart, exp.CharacterSet),
)
_REFUSED_NODES = (
    *(exp.AggFunc, exp.Window, exp.Placeholder, exp.Parameter, exp.SessionParameter, exp.UDTF),
    *(exp.Query, exp.Rand, exp.Randn, exp.Uuid),
)
# These nodes may have only the arguments that are named here.
_ALLOWED_ARGUMENTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset({"expressions", "hint", "from_", "joins", "where", "with_"}),
    exp.Union: frozenset({"this", "expression", "with_"}),
    exp.Subquery: frozenset({"this", "alias", "with_", "joins"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.TableAlias: frozenset({"this"}),
    exp.From: frozenset({"this"}),
    exp.Where: frozenset({"this"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins"}),
    exp.Join: frozenset({"this", "on", "using", "kind", "method"}),
    exp.Star: frozenset({"except_"}),
}


@dataclass(frozen=True, slots=True)
class ViewText:
    """The text of ``view`` in tokens. ``read_by`` is the view that reads it, if there is one."""

    view: ViewDefinition
    read_by: ViewDefinition | None
    tokens: Sequence[Token]

    def word(self, index: int) -> str:
        """The keyword, unquoted identifier or punctuation at ``index``, in capitals.

        The result is empty for any other token and outside of the text. ``GROUP BY`` is one token,
        and the result is its first word.
        """
        return next(iter(word(self.tokens[index]).split()), "") if self._has(index) else ""

    def kind(self, index: int) -> TokenType | None:
        """The type of the token at ``index``. ``None``: the index is outside of the text."""
        return self.tokens[index].token_type if self._has(index) else None

    def is_name(self, index: int) -> bool:
        """Whether the token at ``index`` is an identifier, quoted or not, or a keyword."""
        return self.kind(index) == TokenType.IDENTIFIER or bool(
            _WORD.fullmatch(self.word(index)) and self.kind(index) not in _LITERALS
        )

    def is_star(self, index: int) -> bool:
        """Whether the token at ``index`` is a star for columns and not a multiplication."""
        return self.kind(index) == TokenType.STAR and (
            self.word(index - 1) == "." or self.expects_operand(index)
        )

    def expects_operand(self, index: int) -> bool:
        """Whether an expression continues or starts at ``index``, so that no clause can begin
        there.
        """
        before = self.word(index - 1)
        if self.kind(index - 1) in (None, TokenType.HINT) or before in _BEFORE_OPERANDS:
            return True
        if before in (")", "]", "}") or self.kind(index - 1) in _LITERALS:
            return False
        return not self.is_name(index - 1) and not self.is_star(index - 1)

    def clause(self, index: int) -> str | None:
        """The word of :data:`CLAUSES` at ``index``, if it is a clause there and not a name."""
        found = self.word(index)
        if found not in CLAUSES or "." in (self.word(index - 1), self.word(index + 1)):
            return None
        if self.word(index - 1) == "AS" or (self.is_star(index - 1) and found == "EXCEPT"):
            return None
        if found in ("LEFT", "RIGHT", "WINDOW") and self.word(index + 1) == "(":
            return None
        if self.word(index - 1) == "DISTINCT" and found == "FROM":
            return None
        if self.word(index - 1) in ("IS", "NOT") and found == "DISTINCT":
            return None
        if self.expects_operand(index) and found not in _NO_ALIAS_OF_THEIR_OWN:
            return None
        return found

    def refusal(self, index: int, what: str, why: str = "", fix: str = "") -> UnsupportedView:
        """The error that names ``what`` and the place of the token ``index``."""
        text = self.view.text
        start = self.tokens[index].start if self._has(index) else len(text)
        line = text.count("\n", 0, start) + 1
        column = start - text.rfind("\n", 0, start)
        near = " ".join(text[start : start + _QUOTED_CHARACTERS].split())
        place = f"near {near!r}" if near else "at the end"
        return UnsupportedView(
            self.subject,
            f"has {what} at line {line}, column {column}, {place}",
            cause=why
            or "a stream can only follow a view that uses projections, filters, inner "
            "and cross joins and UNION ALL on tables and such views",
            fix=fix or "leave it out of the view, and apply it to the rows of the stream",
        )

    @property
    def subject(self) -> str:
        """How a message names the view."""
        reader = f", which view {self.read_by.name} reads" if self.read_by else ""
        return f"view {self.view.name}{reader}"

    def _has(self, index: int) -> bool:
        return 0 <= index < len(self.tokens)


def view_text(view: ViewDefinition, read_by: ViewDefinition | None) -> ViewText:
    """The text of ``view`` in tokens.

    :raises UnsupportedView: the text is not SQL, or was made under settings that change its meaning
    """
    bare = ViewText(view, read_by, ())
    _check_settings(bare)
    try:
        return ViewText(view, read_by, tokenise(view.text))
    except InvalidStatement as error:
        raise _unreadable(bare, error) from error


def check_expressions(source: ViewText, first: int, last: int, *, stars: bool) -> frozenset[str]:
    """The names, in lower case, of the functions that a select list or a condition calls.

    The select list or condition consists of the tokens from ``first`` up to, not including,
    ``last``.

    :param stars: whether it is a select list, in which stars are allowed
    :raises UnsupportedView: it has a sub-query, or anything except deterministic functions of the
        values of one row
    """
    called = set()
    depth = 0
    for index in range(first, last):
        depth += source.word(index) in ("(", "[", "{")
        depth -= source.word(index) in (")", "]", "}")
        _check_token(source, index)
        if source.is_star(index):
            _check_star(source, index, first, allowed=stars and depth == 0)
        elif source.is_name(index) and (name := _function(source, index)):
            called.add(name)
    return frozenset(called)


def refusal_of_call(
    views: Iterable[ViewDefinition], function: str, why: str, fix: str
) -> UnsupportedView:
    """The error that names the place where one of ``views`` calls ``function``, a name in lower
    case.
    """
    texts = [view_text(view, None) for view in views]
    what = f"a call of the user-defined function {function}"
    for text in texts:
        for index in range(len(text.tokens)):
            if name_key(text.word(index)) == function and text.word(index + 1) == "(":
                return text.refusal(index, what, why, fix)
    # No token matches, because the name is quoted in the text.
    return texts[0].refusal(0, what, why, fix)


def check_second_reading(source: ViewText, tables: Iterable[Sequence[str]], selects: int) -> None:
    """Read the view with the parser too, and refuse the view if the two readings differ.

    :param tables: the parts of each table reference that was found, including those of CTEs
    :param selects: how many SELECTs were found; ``TABLE name`` counts as one
    :raises UnsupportedView: the view cannot be parsed, holds a node that is not known to be
        allowed, or has other tables or another number of SELECTs
    """
    try:
        tree = parse(source.view.text, source.tokens)
    except InvalidStatement as error:
        raise _unreadable(source, error) from error
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
    for node in tree.walk():
        if not _is_allowed(node):
            raise source.refusal(_place(source, node), f"an unknown element ({node.key})")
    parsed = Counter(
        tuple(name_key(part.name) for part in table.parts) for table in tree.find_all(exp.Table)
    )
    found = Counter(tuple(name_key(part) for part in parts) for parts in tables)
    if parsed != found or sum(1 for _ in tree.find_all(exp.Select)) != selects:
        raise source.refusal(0, "a query that can be read in two ways")


def _check_settings(source: ViewText) -> None:
    view = source.view
    found = [name for name, value in view.settings if (name, value.lower()) in _REFUSED_SETTINGS]
    if view.collation != BINARY:
        found.append(f"the default collation {view.collation}")
    if found:
        raise UnsupportedView(
            source.subject,
            f"was created with {found[0]}",
            cause="a stream would read its names or texts differently",
            fix="create the view again without it",
        )


def _may_move(text: str, before: str) -> bool:
    """Whether ``text`` may mean another moment in each query. ``before`` is the word before it."""
    is_time = before != "TIME" and _TIME_OF_DAY.fullmatch(text) is not None
    return is_time or _MOMENT.fullmatch(text) is not None


def _check_token(source: ViewText, index: int) -> None:
    found, before = source.word(index), source.word(index - 1)
    kind = source.kind(index)
    if kind in _MARKERS or (found == ":" and source.expects_operand(index)):
        raise source.refusal(index, "a parameter marker")
    if kind in (TokenType.STRING, TokenType.RAW_STRING) and _may_move(
        source.tokens[index].text, before
    ):
        raise source.refusal(
            index,
            "a text that Spark may read as a relative time",
            "as a date or a timestamp it has a different value in each query",
            "write the date itself",
        )
    if source.clause(index) == "SELECT" or (
        before == "("
        and found in _SUBQUERIES
        and (source.is_name(index + 1) or source.word(index + 1) == "(")
    ):
        raise source.refusal(
            index, "a sub-query outside of FROM", fix="write it as a join, or leave it out"
        )
    if found in _AFTER_CALL and before == ")":
        raise source.refusal(index, _AFTER_CALL[found])
    if found == "DISTINCT" and before == "(":
        raise source.refusal(index, "an aggregate with DISTINCT")
    if found == "(" and before == "AS":
        raise source.refusal(index, "a generator with several names")
    if source.is_name(index) and source.tokens[index].text.lower() == "_metadata":
        raise source.refusal(
            index, "the column _metadata", "it shows where a row is stored, not its values"
        )


def _check_star(source: ViewText, index: int, first: int, *, allowed: bool) -> None:
    start = index
    while source.word(start - 1) == "." and source.is_name(start - 2):
        start -= 2
    follows = source.word(index + 1), source.word(index + 2)
    is_whole = start == first or source.word(start - 1) == ","
    if allowed and is_whole and (follows[0] in (",", "FROM") or follows == _STAR_EXCEPT):
        return
    raise source.refusal(
        index,
        "a star inside an expression",
        "it would include the columns by which a stream tracks rows",
        "name the columns",
    )


def _function(source: ViewText, index: int) -> str:
    """The function that is called at ``index``. The result is empty if there is no call."""
    name = source.tokens[index].text.lower()
    before, after = source.word(index - 1), source.word(index + 1)
    if after != "(":
        if name in WITHOUT_PARENTHESES and before not in (".", "AS") and after != ".":
            raise source.refusal(
                index,
                f"the non-deterministic function {name}",
                fix=f"leave it out; write a column of that name as the_table.{name}",
            )
        return ""
    if before == ".":
        raise source.refusal(
            index,
            f"the function {name} of a schema",
            "the effect of a user-defined function is unknown",
            "write its effect in SQL",
        )
    if before in ("AS", "::") or source.word(index) in _NO_FUNCTIONS:
        return ""
    if name in ("any", "some") and before in ("LIKE", "ILIKE"):
        return ""
    if name == "identifier":
        raise source.refusal(index, "an IDENTIFIER clause", fix="write the name itself")
    if name in REFUSED_FUNCTIONS:
        raise source.refusal(index, f"{REFUSED_FUNCTIONS[name]} {name}")
    if name == "unix_timestamp" and source.word(index + 2) == ")":
        raise source.refusal(index, f"the non-deterministic function {name}")
    return name


def _is_allowed(node: exp.Expr) -> bool:
    arguments = _ALLOWED_ARGUMENTS.get(type(node))
    if arguments is not None:
        given = {name for name, value in node.args.items() if value}
        joined = (node.args.get("kind") or "", node.args.get("method") or "")
        return given <= arguments and (
            not isinstance(node, exp.Join)
            or (joined[0] in ("", "INNER", "CROSS") and joined[1] in ("", "NATURAL"))
        )
    return isinstance(node, _ALLOWED_NODES) and not isinstance(node, _REFUSED_NODES)


def _place(source: ViewText, node: exp.Expr) -> int:
    """The index of the first token that is known to belong to ``node``, or 0."""
    starts = {each.meta.get("start", -1) for each in node.walk()}
    return next((i for i, token in enumerate(source.tokens) if token.start in starts), 0)


def _unreadable(source: ViewText, error: InvalidStatement) -> UnsupportedView:
    return UnsupportedView(source.subject, error.problem, cause=error.cause, fix=error.fix)
