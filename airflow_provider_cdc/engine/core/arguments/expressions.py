"""The SQL expressions that a caller gives: each is one expression, and names columns."""

from __future__ import annotations

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from ..errors import InvalidRequest
from ..shown_values import shown

_DIALECT = "databricks"


def check_expression(subject: str, argument: str, text: str) -> None:
    """Refuse a text that is not one SQL expression.

    :param argument: the name of the argument
    :raises InvalidRequest: it is not an expression, or holds a query
    """
    found = _parsed(text)
    if found is None or isinstance(found, (exp.Query, exp.DDL, exp.DML, exp.Command)):
        raise InvalidRequest(
            subject,
            f"cannot use this {argument}",
            cause=f"expected one SQL expression over the columns of the source, found"
            f" {shown(text)}",
            fix=f"write {argument}=\"operation = 'DELETE'\", or the name of a column",
        )


def plain_column(text: str) -> str | None:
    """The name of the column that an expression consists of; ``None``: it computes something."""
    found = _parsed(text)
    return found.name if isinstance(found, exp.Column) and not found.table else None


def _parsed(text: str) -> exp.Expression | None:
    try:
        found = parse(f"SELECT {text}", read=_DIALECT)
    except SqlglotError:
        return None
    select = found[0] if len(found) == 1 else None
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return None
    # A clause after the expression would become part of the query around it.
    if any(value for name, value in select.args.items() if name != "expressions"):
        return None
    one: exp.Expression = select.expressions[0]
    return None if isinstance(one, (exp.Alias, exp.Star)) else one
