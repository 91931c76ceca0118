"""The query of a view as a tree of relations, and the text of each SELECT over replaced tables.

This module does not read SQL: :func:`~.expansion.expand` makes the trees.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ..names import name_key, quote

BINARY = "UTF8_BINARY"


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view as the catalog keeps it.

    ``parts`` is its qualified name, and ``text`` its query. ``namespace`` is the catalog and the
    schema that shorter names in ``text`` are relative to, such as ``("spark_catalog", "default")``.
    ``columns`` are the names of its output columns. They are empty if the view always has the
    columns of its query. ``settings`` are the session settings that Spark reads ``text`` under, by
    name. ``collation`` is the collation of texts in it.
    """

    parts: tuple[str, ...]
    text: str
    namespace: tuple[str, ...]
    columns: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()
    collation: str = BINARY

    @property
    def name(self) -> str:
        """The qualified name, for messages."""
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A reference to a table.

    ``number`` is its place among all references of the whole expanded query, from 0, depth-first in
    the order of the text. A table that is read twice is two leaves. ``parts`` is the qualified
    name, or ``("delta", "/a/path")``.
    """

    number: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FromItem:
    """One relation in the FROM of a SELECT.

    The SELECT's text from ``start`` up to, not including, ``end`` is the table's name or a
    sub-query with its parentheses. In the text to run, the name of a relation replaces it, and
    ``alias`` is inserted after it. ``None``: the text already has an alias. ``label`` qualifies the
    columns of the item within the SELECT. ``in_star``: a star of the select list returns all
    columns of the item.
    """

    start: int
    end: int
    alias: str | None
    label: str
    relation: Relation
    in_star: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT (or ``TABLE name``) by itself. ``text`` has no CTEs and no parentheses around it.

    All positions are in ``text``. ``items`` are in the order of the text. The select list ends at
    ``hidden_at``. ``dropped`` are the starts and ends of qualifiers such as the ``s.`` of
    ``s.orders.id``. Such a qualifier does not work for a relation that replaces ``s.orders``.
    ``functions`` are the names, in lower case, of the functions that the SELECT itself calls.
    ``aliases`` are the names, without case, that its select list gives and uses. ``is_natural``: it
    has a NATURAL JOIN.
    """

    text: str
    items: tuple[FromItem, ...]
    hidden_at: int
    dropped: tuple[tuple[int, int], ...]
    functions: frozenset[str]
    aliases: frozenset[str] = frozenset()
    is_natural: bool = False


@dataclass(frozen=True, slots=True)
class UnionAll:
    """Two or more branches whose columns are matched by position and named after the first.

    ``a UNION ALL b UNION ALL c`` is one node of three branches. A branch in parentheses may be a
    union itself. Types widen from left to right, branch by branch (see :func:`union_text`).
    """

    branches: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """The chosen branch ``index`` of the union ``of``. ``relation`` is that branch without unions.

    Its columns are renamed, by position, to those of ``of.branches[0]`` and cast to the types of
    the union's columns.
    """

    relation: Relation
    index: int
    of: UnionAll


@dataclass(frozen=True, slots=True)
class Renamed:
    """A view: its query, whose columns are renamed to ``columns``.

    ``parts`` is the qualified name of the view.
    """

    relation: Relation
    parts: tuple[str, ...]
    columns: tuple[str, ...]


Relation = Leaf | Select | UnionAll | Branch | Renamed


def leaves(relation: Relation) -> tuple[Leaf, ...]:
    """The table references of ``relation`` in the order of their numbers.

    For a variant, only those of the chosen branches.
    """
    return tuple(node for node in _nodes(relation) if isinstance(node, Leaf))


def functions(relation: Relation) -> frozenset[str]:
    """The names, in lower case, of all functions called anywhere in ``relation``.

    Some are not functions but words of the grammar before a parenthesis (``cast``). None of them is
    qualified, an aggregate, a generator or known to be non-deterministic.
    """
    selects = (node for node in _nodes(relation) if isinstance(node, Select))
    return frozenset(itertools.chain.from_iterable(node.functions for node in selects))


def changed_meaning(
    relation: Relation,
    before: Sequence[str],
    now: Sequence[str],
    others: Collection[str] = (),
    *,
    numbers: Collection[int] = (),
) -> str | None:
    """What in ``relation`` may have another meaning, because a table that it reads has other
    columns now. ``None``: it has the same meaning, or Spark itself refuses it.

    :param before: the names of the table's columns before the change, in order
    :param now: the names of the columns after the change, in order
    :param others: the names, without case, that exist before and after but mean another column now
    :param numbers: the references to the table; a name after one of them and a dot may be a column
    """
    then, today = ([name_key(name) for name in names] for names in (before, now))
    changed = frozenset(then) ^ frozenset(today)
    nodes = list(_nodes(relation))
    selects = [node for node in nodes if isinstance(node, Select)]
    if changed and any(select.is_natural for select in selects):
        return "a NATURAL JOIN, which joins by all common columns"
    for select in selects:
        if used := sorted(select.aliases & changed):
            return f"{used[0]}, which is an alias or a column, whichever exists"
        for item, name in itertools.product(select.items, sorted(changed)):
            if _shows_all(item.relation, numbers) and _qualifies(select.text, item.label, name):
                return f"{item.label}.{name}, which is a field or a column, whichever exists"
    has_star = any(item.in_star for select in selects for item in select.items)
    is_union = any(isinstance(node, UnionAll) for node in nodes)
    if has_star and is_union and today[: len(then)] != then:
        return "a UNION ALL of a star, whose columns match by position"
    for name in sorted(others):
        if any(_may_read(select, name) for select in selects):
            return f"{name}, which is a different column now"
    return None


def _shows_all(relation: Relation, numbers: Collection[int]) -> bool:
    """Whether ``relation`` has all columns of a table, through one of its references."""
    match relation:
        case Leaf(number=number):
            return number in numbers
        case Select(items=items):
            return any(item.in_star and _shows_all(item.relation, numbers) for item in items)
        case UnionAll(branches=branches):
            return any(_shows_all(branch, numbers) for branch in branches)
        case Renamed(columns=columns) if columns:
            return False
        case Renamed() | Branch():
            return _shows_all(relation.relation, numbers)


def _qualifies(text: str, label: str, column: str) -> bool:
    """Whether ``text`` has ``label`` before ``column``, in any spelling, with a dot in between."""
    first, second = (
        f"`?{re.escape(name_key(name).replace('`', '``'))}`?" for name in (label, column)
    )
    return re.search(rf"(?<!\w){first}\s*\.\s*{second}(?!\w)", name_key(text)) is not None


def _may_read(select: Select, column: str) -> bool:
    """Whether a SELECT may read a ``column`` of that name, without case, of any table.

    False only if its text does not have the name as a word, and has nothing that returns all
    columns of a table.
    """
    has_all = any(item.in_star and isinstance(item.relation, Leaf) for item in select.items)
    name = re.escape(column.replace("`", "``"))
    is_named = re.search(rf"(?<!\w){name}(?!\w)", name_key(select.text)) is not None
    return has_all or select.is_natural or is_named


def count_of_variants(relation: Relation) -> int:
    """How many trees :func:`variants` makes of ``relation``, without making them."""
    match relation:
        case Select():
            return math.prod(count_of_variants(item.relation) for item in relation.items)
        case UnionAll():
            return sum(count_of_variants(branch) for branch in relation.branches)
        case Renamed() | Branch():
            return count_of_variants(relation.relation)
        case Leaf():
            return 1


def variants(relation: Relation) -> tuple[Relation, ...]:
    """The trees without unions that together give the rows of ``relation``.

    There is one tree for each combination of branches, in the order of the text. The last union
    varies fastest. A union becomes the chosen :class:`Branch`. Leaves keep their numbers.
    """
    match relation:
        case Select(items=items):
            chosen = itertools.product(*(variants(item.relation) for item in items))
            return tuple(_with_relations(relation, relations) for relations in chosen)
        case UnionAll(branches=branches):
            return tuple(
                Branch(variant, index, relation)
                for index, branch in enumerate(branches)
                for variant in variants(branch)
            )
        case Renamed() | Branch():
            return tuple(replace(relation, relation=each) for each in variants(relation.relation))
        case Leaf():
            return (relation,)


def select_text(
    select: Select, names: Sequence[str], hidden: Sequence[Sequence[str]] | None = None
) -> str:
    """The text of ``select`` to run, over relations that replace its items.

    :param names: for each item, the one-part name of the relation that has its columns
    :param hidden: for each item, the names of its hidden columns, which no other column has. A star
        of the item returns them too. Without a star they are added to the select list. ``None``: no
        item has hidden columns, and the select list stays as the user wrote it.
    """
    added = "".join(
        f", {quote(item.label)}.{quote(column)}"
        for item, columns in zip(select.items, hidden or ((),) * len(select.items), strict=True)
        if not item.in_star
        for column in columns
    )
    edits = [(start, end, "") for start, end in select.dropped]
    edits.append((select.hidden_at, select.hidden_at, added))
    for item, name in zip(select.items, names, strict=True):
        alias = "" if item.alias is None else f" AS {quote(item.alias)}"
        edits.append((item.start, item.end, quote(name) + alias))
    pieces = []
    position = 0
    for start, end, replacement in sorted(edits):
        pieces += [select.text[position:start], replacement]
        position = end
    return "".join([*pieces, select.text[position:]])


def union_text(names: Sequence[str]) -> str:
    """The text of a union of relations. Spark derives the names and types of the columns from it.

    :param names: for each branch of the :class:`UnionAll`, the one-part name of the relation that
        has its columns
    """
    return "\nUNION ALL\n".join(f"SELECT * FROM {quote(name)}" for name in names)


def _nodes(relation: Relation) -> Iterator[Relation]:
    """``relation`` and all below it, depth first, without branches that were not chosen."""
    yield relation
    match relation:
        case Select(items=items):
            below: Iterator[Relation] = (item.relation for item in items)
        case UnionAll(branches=branches):
            below = iter(branches)
        case Renamed() | Branch():
            below = iter((relation.relation,))
        case Leaf():
            return
    for child in below:
        yield from _nodes(child)


def _with_relations(select: Select, relations: Sequence[Relation]) -> Select:
    items = (
        replace(item, relation=relation)
        for item, relation in zip(select.items, relations, strict=True)
    )
    return replace(select, items=tuple(items))
