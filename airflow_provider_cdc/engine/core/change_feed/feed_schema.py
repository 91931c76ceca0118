"""The columns of a feed whose table changed its columns within the range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..delta.log_actions import ROW_ID_SETTING, ROW_VERSION_SETTING
from ..delta.table_schema import Layout, OlderFields
from ..delta.type_changes import lossy_change
from ..errors import InvalidRequest
from ..names import loose_key


def has_same_ids(one: Layout, other: Layout) -> bool:
    """Whether files of both layouts keep the ids of carried rows in the same columns."""
    names = (ROW_ID_SETTING, ROW_VERSION_SETTING)
    return all(one.configuration.get(name) == other.configuration.get(name) for name in names)


def first_alike(layouts: Sequence[Layout]) -> tuple[int, ...]:
    """For each of ``layouts``, the first place of the run of layouts that are read like it.

    Many commits set metadata that no reader needs, such as the highest value of an identity column.
    """
    found: list[int] = []
    for place, layout in enumerate(layouts):
        before = layouts[place - 1]
        is_same = place > 0 and layout.reads_as(before) and has_same_ids(layout, before)
        found.append(found[-1] if is_same else place)
    return tuple(found)


def without_lost_values(steps: Sequence[Layout]) -> tuple[Layout, ...]:
    """``steps``, which lead from the layout of rows to other columns, so that a column whose new
    type does not hold its old values is NULL: the layouts before the change lack it.
    """
    path = list(steps)
    for place in range(len(path) - 1, 0, -1):
        newer, older = path[place], path[place - 1]
        known = OlderFields(older.fields)
        lost = [
            id(before)
            for field in newer.fields
            if (before := known.match(field)) is not None
            and lossy_change([field], [before]) is not None
        ]
        kept = tuple(field for field in older.fields if id(field) not in lost)
        path[place - 1] = replace(older, fields=kept)
    return tuple(path)


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
