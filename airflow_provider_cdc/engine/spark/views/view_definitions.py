"""Views from the catalog, resolved into the tables that they read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ...core.errors import BRING_BACK, NotADeltaTable, StreamStale, TableNotFound, UnsupportedView
from ...core.model.sources import View
from ...core.model.tables import Table
from ...core.names import TableName, name_key, qualified_name, quote, split_name
from ...core.views.expansion import expand
from ...core.views.relations import BINARY, Renamed, ViewDefinition, functions, leaves
from ...core.views.unsupported_queries import refusal_of_call
from ...core.views.view_settings import view_settings
from ..tables.delta_tables import Tables

# The nodes in Spark's analysis of projections, filters, inner joins, UNION ALL and hints.
_FOLLOWED = frozenset(
    {"Project", "Filter", "Join", "Union", "SubqueryAlias", "View", "Relation", "ResolvedHint"}
    | {"WithCTE", "CTERelationDef", "CTERelationRef"}
)
_FOLLOWED_JOINS = ("Join Inner", "Join Cross")
# A view of this mode always has the columns of its query. Spark updates the catalog when it reads
# the view.
_EVOLVING = "EVOLUTION"
# The catalog of temporary views.
_OF_THE_SESSION = "system"
_SETTINGS = "view_creation_spark_configuration"
_NODE = re.compile(r"[\s:+\-]*(?P<node>\w[\w ]*)")


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """A view, resolved into its parts.

    ``relation`` is its query over tables. ``outputs`` holds the columns that the query of each view
    in it had when that view was made, by the view's qualified name; empty if the view has the
    columns that its query has now. ``settings`` are the settings under which the text of each view
    is read. ``definitions`` are those of the view itself and of the views in it. ``tables`` are the
    tables that it reads, each once, in the order in which it names them. ``leaves`` holds the place
    in ``tables`` of each table reference, by the number of the reference.
    """

    name: TableName
    relation: Renamed
    outputs: dict[tuple[str, ...], tuple[str, ...]]
    settings: dict[tuple[str, ...], dict[str, str]]
    definitions: tuple[ViewDefinition, ...]
    tables: tuple[Table, ...]
    leaves: tuple[int, ...]
    fingerprint: str

    @property
    def view(self) -> View:
        """What a stream keeps of the view."""
        return View(self.name.sql, self.fingerprint, self.leaves)


@dataclass(frozen=True, slots=True)
class _Found:
    """A view's definition, and the columns that its query had when the view was made. Both are
    without columns if the view always has the columns of its query.
    """

    definition: ViewDefinition
    outputs: tuple[str, ...]


class ViewDefinitions:
    """Looks up views in Spark's catalog."""

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self._spark = spark
        self._tables = tables

    def is_view(self, name: TableName) -> bool:
        """Whether there is a view of that name."""
        return not name.is_path and self._find(name.parts) is not None

    def query(self, name: TableName) -> ViewQuery:
        """The view ``name``, resolved into its parts.

        :raises TableNotFound: there is no view of that name, or a table that it reads is missing
        :raises UnsupportedView: it contains what a stream cannot follow
        :raises NotADeltaTable: it reads something other than Delta tables
        """
        query = self._taken_apart(name)
        self._check_functions(query)
        self._check_plan(query)
        return query

    def _taken_apart(self, name: TableName) -> ViewQuery:
        """The result of :meth:`query`, without its checks: only from the text of the view."""
        root = None if name.is_path else self._find(name.parts)
        if root is None:
            raise TableNotFound(
                f"view {name.sql}",
                "does not exist",
                cause="expected a view that stays when the session ends, found none",
                fix="check the spelling and the session's current catalog and schema",
            )
        found: dict[tuple[str, ...], _Found] = {root.definition.parts: root}

        def resolve(parts: tuple[str, ...]) -> ViewDefinition | None:
            nested = self._find(parts)
            if nested is None:
                return None
            found[nested.definition.parts] = nested
            return nested.definition

        relation = expand(root.definition, resolve)
        tables, numbers = self._tables_of(root.definition, relation)
        return ViewQuery(
            name=qualified_name(root.definition.parts),
            relation=relation,
            outputs={parts: item.outputs for parts, item in found.items()},
            settings={parts: dict(item.definition.settings) for parts, item in found.items()},
            definitions=tuple(item.definition for item in found.values()),
            tables=tables,
            leaves=numbers,
            fingerprint=_fingerprint([found[parts] for parts in sorted(found)]),
        )

    def current(self, stream: str, view: View, locations: Sequence[str]) -> ViewQuery:
        """The view of a stream, resolved into its parts. It must be unchanged.

        :param stream: the name of the stream, for messages
        :param locations: the roots of the stream's base tables
        :raises StreamStale: the view or one of its tables is a different one now
        """
        try:
            # A view with the fingerprint of a checked view needs no check.
            query = self._taken_apart(qualified_name(split_name(view.name)))
        except (TableNotFound, UnsupportedView, NotADeltaTable) as error:
            raise _stale(stream, view, str(error)) from None
        if query.fingerprint != view.fingerprint or query.leaves != view.leaves:
            raise _stale(
                stream,
                view,
                "the definition of the view, or of one that it reads, has changed: its text, its"
                " columns or its settings",
            )
        if [table.location for table in query.tables] != list(locations):
            raise _stale(stream, view, "a name in it refers to another table now")
        return query

    def _find(self, parts: tuple[str, ...]) -> _Found | None:
        """The view of the name ``parts``; ``None``: a table, a temporary view, or nothing."""
        try:
            name = qualified_name(parts).sql
            (row,) = self._spark.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").collect()
        except AnalysisException:
            return None
        detail = json.loads(row[0])
        if detail["type"] != "VIEW" or detail["catalog_name"] == _OF_THE_SESSION:
            return None
        is_evolving = detail.get("view_schema_mode") == _EVOLVING
        columns = () if is_evolving else tuple(column["name"] for column in detail["columns"])
        definition = ViewDefinition(
            parts=(detail["catalog_name"], *detail["namespace"], detail["table_name"]),
            text=detail["view_text"],
            namespace=split_name(detail["view_catalog_and_namespace"]),
            columns=columns,
            settings=tuple(view_settings(detail.get(_SETTINGS, {})).items()),
            collation=detail.get("collation", BINARY),
        )
        outputs = () if is_evolving else tuple(detail.get("view_query_output_columns", ()))
        return _Found(definition, outputs)

    def _tables_of(
        self, view: ViewDefinition, relation: Renamed
    ) -> tuple[tuple[Table, ...], tuple[int, ...]]:
        tables: list[Table] = []
        numbers = []
        by_name: dict[tuple[str, ...], Table] = {}
        for leaf in leaves(relation):
            if leaf.parts not in by_name:
                by_name[leaf.parts] = self._table(view, leaf.parts)
            table = by_name[leaf.parts]
            places = [i for i, known in enumerate(tables) if known.location == table.location]
            if not places:
                tables.append(table)
            numbers.append(places[0] if places else len(tables) - 1)
        return tuple(tables), tuple(numbers)

    def _table(self, view: ViewDefinition, parts: tuple[str, ...]) -> Table:
        try:
            return self._tables.get(qualified_name(parts))
        except (TableNotFound, NotADeltaTable) as error:
            raise type(error)(
                f"view {view.name}",
                f"cannot have a stream: {error.subject} {error.problem}",
                cause=error.cause,
                fix=error.fix,
            ) from None

    def _check_functions(self, query: ViewQuery) -> None:
        called = functions(query.relation)
        own: set[str] = set()
        for namespace in {view.namespace for view in query.definitions}:
            place = ".".join(map(quote, namespace))
            for row in self._spark.sql(f"SHOW USER FUNCTIONS IN {place}").collect():
                own.add(name_key(split_name(row[0])[-1]))
        used = sorted(called & own) and sorted(called & (own - self._system_functions()))
        if used:
            raise refusal_of_call(
                query.definitions,
                used[0],
                "it may return different values for the same row",
                "write it with Spark's own functions, or store its result in a column",
            )

    def _system_functions(self) -> set[str]:
        return {name_key(row[0]) for row in self._spark.sql("SHOW SYSTEM FUNCTIONS").collect()}

    def _check_plan(self, query: ViewQuery) -> None:
        """Refuse a view that Spark itself does not understand as a join of tables."""
        explained = self._spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {query.name.sql}").collect()[
            0
        ][0]
        analysed = explained.partition("== Analyzed Logical Plan ==\n")[2]
        # The first line lists the columns.
        lines = analysed.partition("\n\n")[0].splitlines()[1:]
        for line in lines:
            node = _NODE.match(line)
            words = node["node"].split() if node else [line.strip()]
            is_followed = words[0] in _FOLLOWED
            if words[0] == "Join":
                is_followed = " ".join(words[:2]) in _FOLLOWED_JOINS
            if not is_followed:
                raise UnsupportedView(
                    f"view {'.'.join(query.name.parts)}",
                    "has a part that a stream cannot follow",
                    cause=f"Spark plans this part as {' '.join(words[:2])}",
                    fix="define it only with projections, filters, inner joins and UNION ALL",
                )


def _fingerprint(found: Sequence[_Found]) -> str:
    """A hash of only what decides the rows of a view. Its owner and the time of its creation are
    not in the hash. A view that is created again in the same way has the same rows and keeps its
    streams.
    """
    content = json.dumps([astuple(item) for item in found])
    return hashlib.sha256(content.encode()).hexdigest()


def _stale(stream: str, view: View, cause: str) -> StreamStale:
    return StreamStale(
        f"stream {stream}",
        f"is stale, its view {view.name} has changed",
        cause=cause.rstrip("."),
        fix="create the stream again with or_replace=True and the options that it had, then"
        f" {BRING_BACK}",
    )
