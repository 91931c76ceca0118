"""The columns of a feed whose table changed its columns within the range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..delta.table_schema import Layout, OlderFields
from ..errors import InvalidRequest
from ..names import loose_key


def with_dropped_columns(subject: str, layouts: Sequence[Layout]) -> tuple[Layout, ...]:
    """Each of ``layouts``, which followed one another, with the columns that were dropped before
    it after its own.

    :param subject: the feed, for messages
    :raises InvalidRequest: a column was dropped, and another one has its name
    """
    found = [layouts[0]]
    for layout in layouts[1:]:
        before = OlderFields(found[-1].fields)
        kept = [id(before.match(field)) for field in layout.fields]
        dropped = [field for field in found[-1].fields if id(field) not in kept]
        found.append(replace(layout, fields=(*layout.fields, *dropped)))
    seen: dict[str, str] = {}
    for name in found[-1].column_names:
        if loose_key(name) in seen:
            raise InvalidRequest(
                subject,
                "cannot have the columns of every commit",
                cause=f"column {name} was dropped, and there is another column"
                f" {seen[loose_key(name)]}",
                fix='pass schema="end", or read the commits before and after that change by'
                " themselves",
            )
        seen[loose_key(name)] = name
    return tuple(found)
