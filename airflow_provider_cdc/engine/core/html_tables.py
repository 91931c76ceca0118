"""Values as tables of HTML, for notebooks. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def html_table(titles: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table with a line for each of ``rows``. ``None`` is an empty cell."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_fields(fields: Mapping[str, object], caption: str = "") -> str:
    """A table with a line for each field that has a value."""
    given = ((name, value) for name, value in fields.items() if value not in (None, ""))
    return html_table(("", ""), given, caption)


def _cell(value: object) -> str:
    text = "" if value is None else escape(str(value))
    return f'<td style="text-align: left">{text}</td>'
