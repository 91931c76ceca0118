"""The query of a view as relations over tables only: nested views are replaced by their queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..errors import UnsupportedView
from ..names import qualified_name
from .query_reader import folded, read_view
from .relations import Leaf, Relation, Renamed, Select, UnionAll, ViewDefinition, count_of_variants

MAX_LEAVES = 1000
MAX_VARIANTS = 1000
MAX_NESTED_VIEWS = 100


def expand(
    view: ViewDefinition, resolve: Callable[[tuple[str, ...]], ViewDefinition | None]
) -> Renamed:
    """The query of ``view`` over tables only. Nested views are replaced by their queries.

    A name without a catalog or a schema is completed from the namespace of the view that contains
    it. The root of the result is ``view`` itself.

    :param resolve: returns the view that a qualified name means; ``None``: it is a table, or does
        not exist. It is not called for names of CTEs or for paths.
    :raises UnsupportedView: a query holds something that a stream cannot follow or that is not
        understood, a view is nested in itself or too deeply, or there are more than
        :data:`MAX_LEAVES` table references or more than :data:`MAX_VARIANTS` variants
    """
    renamed = _Expansion(resolve).view(view, ())
    count = count_of_variants(renamed)
    if count > MAX_VARIANTS:
        raise _too_large(view, f"{count} combinations of the branches of its unions", MAX_VARIANTS)
    return renamed


class _Expansion:
    """Numbers the leaves, and replaces the names of nested views with their queries."""

    def __init__(self, resolve: Callable[[tuple[str, ...]], ViewDefinition | None]) -> None:
        self._resolve = resolve
        self._leaves = 0

    def view(self, view: ViewDefinition, readers: tuple[ViewDefinition, ...]) -> Renamed:
        keys = [folded(reader.parts) for reader in readers]
        path = " reads ".join(reader.name for reader in (*readers, view))
        if folded(view.parts) in keys:
            raise UnsupportedView(
                f"view {view.name}",
                "is nested in itself",
                cause=path,
                fix="define one of the views without the other",
            )
        if len(readers) > MAX_NESTED_VIEWS:
            raise _too_large(readers[0], "nested views", MAX_NESTED_VIEWS)
        try:
            relation = read_view(view, readers[-1] if readers else None)
        except RecursionError as error:
            raise _too_large(view, "nested sub-queries", "the depth that can be parsed") from error
        return Renamed(self._relation(relation, (*readers, view)), view.parts, view.columns)

    def _relation(self, relation: Relation, readers: tuple[ViewDefinition, ...]) -> Relation:
        match relation:
            case Select(items=items):
                expanded = (
                    replace(item, relation=self._relation(item.relation, readers)) for item in items
                )
                return replace(relation, items=tuple(expanded))
            case UnionAll(branches=branches):
                return UnionAll(tuple(self._relation(branch, readers) for branch in branches))
            case Leaf(parts=parts):
                view = None if qualified_name(parts).is_path else self._resolve(parts)
                return self._leaf(parts, readers[0]) if view is None else self.view(view, readers)
            case _:
                return relation

    def _leaf(self, parts: tuple[str, ...], view: ViewDefinition) -> Leaf:
        self._leaves += 1
        if self._leaves > MAX_LEAVES:
            raise _too_large(view, "table references", MAX_LEAVES)
        return Leaf(self._leaves - 1, parts)


def _too_large(view: ViewDefinition, what: str, most: object) -> UnsupportedView:
    return UnsupportedView(
        f"view {view.name}",
        f"has too many {what}",
        cause=f"the maximum is {most}",
        fix="split it into several views",
    )
