"""The rows of a view over other rows of its tables, with hidden columns that are passed through."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ...core.errors import InvalidRange, InvalidRequest
from ...core.names import name_key, quote
from ...core.views.relations import (
    Branch,
    Leaf,
    Relation,
    Renamed,
    Select,
    UnionAll,
    select_text,
    union_text,
)
from ..session.failures import first_line
from ..session.session_settings import settings

_RELATION = "__cdc_relation_"
_REMOTE = "pyspark.sql.connect"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a relation: ``frame`` has its columns and the ``hidden`` ones, in any order."""

    frame: DataFrame
    hidden: tuple[str, ...]

    def renamed(self, schema: StructType, places: Sequence[int] | None = None) -> Rows:
        """The same rows with the columns of ``schema`` by position, then the hidden columns.

        :param places: the positions of these columns in ``frame``; ``None``: all shown columns, in
            order
        """
        found = self.frame.schema.fields
        names = [f"__cdc_{index}" for index in range(len(found))]
        shown = [
            _renamed(names[place], found[place], field)
            for place, field in zip(places or self._shown(), schema.fields, strict=True)
        ]
        hidden = [
            f"{names[place]} AS {quote(field.name)}"
            for place, field in enumerate(found)
            if field.name in self.hidden
        ]
        frame = self.frame.toDF(*names)
        texts = [column for column in (*shown, *hidden) if isinstance(column, str)]
        if len(texts) == len(shown) + len(hidden):
            # One call into the JVM, not several for each column.
            return Rows(frame.selectExpr(*texts), self.hidden)
        columns = [F.expr(item) if isinstance(item, str) else item for item in (*shown, *hidden)]
        return Rows(frame.select(*columns), self.hidden)

    def places(self, names: Sequence[str]) -> list[int]:
        """The positions of the shown columns called ``names``. A name that is repeated gets the
        next column of that name.

        Spark finds the columns of a view by name too. Its query may return other columns now, in
        any order.

        :raises LookupError: there is no such column
        """
        columns = self.frame.columns
        left: dict[str, deque[int]] = {}
        for place in self._shown():
            left.setdefault(name_key(columns[place]), deque()).append(place)
        found = []
        for name in names:
            places = left.get(name_key(name))
            if not places:
                raise LookupError(f"there is no column {name}")
            found.append(places.popleft())
        return found

    def _shown(self) -> list[int]:
        return [i for i, name in enumerate(self.frame.columns) if name not in self.hidden]


class Evaluation:
    """Evaluates the relations of a view.

    :param tables: rows of each table reference, by its number, for uses that need only the columns
        and their types
    :param schema_of: returns the columns of a view in the catalog, by its qualified name
    :param outputs: the columns that the query of each view had when the view was made; empty if a
        view has the columns that its query has now
    :param settings_of: the session settings under which the text of each view is read
    """

    def __init__(
        self,
        spark: SparkSession,
        tables: Mapping[int, DataFrame],
        schema_of: Callable[[tuple[str, ...]], StructType],
        outputs: Mapping[tuple[str, ...], Sequence[str]],
        settings_of: Mapping[tuple[str, ...], Mapping[str, str]],
    ) -> None:
        self._spark = spark
        self._tables = {number: Rows(frame, ()) for number, frame in tables.items()}
        self._schema_of = schema_of
        self._outputs = outputs
        self._settings_of = settings_of
        self._unions: dict[UnionAll, StructType] = {}

    def rows(self, relation: Relation, tables: Mapping[int, Rows]) -> Rows:
        """The rows of ``relation`` over ``tables``, by the number of the table reference.

        The hidden columns of all tables that it reads are passed through; no two may share a name.

        :raises InvalidRange: the tables lack columns that a view needs
        """
        match relation:
            case Leaf(number=number):
                return tables[number]
            case Renamed(parts=view):
                schema = self._schema_of(view)
                with self._under(view):
                    try:
                        rows = self.rows(relation.relation, tables)
                        places = rows.places(self._outputs[view] or schema.names)
                    except (AnalysisException, LookupError) as error:
                        raise _unreadable(view, error) from None
                    return rows.renamed(schema, places)
            case Branch(of=union):
                return self.rows(relation.relation, tables).renamed(self._schema(union))
            case UnionAll(branches=branches):
                names = [f"{_RELATION}{index}" for index in range(len(branches))]
                parts = [self.rows(branch, tables) for branch in branches]
                return Rows(self._run(union_text(names), parts), ())
            case Select(items=items):
                names = [f"{_RELATION}{index}" for index in range(len(items))]
                parts = [self.rows(item.relation, tables) for item in items]
                text = select_text(relation, names, [part.hidden for part in parts])
                hidden = tuple(name for part in parts for name in part.hidden)
                return Rows(self._run(text, parts), hidden)

    def _schema(self, union: UnionAll) -> StructType:
        if union not in self._unions:
            self._unions[union] = self.rows(union, self._tables).frame.schema
        return self._unions[union]

    def _under(self, view: tuple[str, ...]) -> AbstractContextManager[None]:
        """Run under the settings under which Spark reads a view's text, not under the session's.

        :raises InvalidRequest: the session is remote and has other settings: such a session reads a
            text only when rows are requested
        """
        different = {
            name: value
            for name, value in self._settings_of[view].items()
            if self._setting(name) != value
        }
        if different and type(self._spark).__module__.startswith(_REMOTE):
            name, value = next(iter(different.items()))
            raise InvalidRequest(
                f"view {'.'.join(view)}",
                "cannot be read in this session",
                cause=f"expected {name} {value!r}, with which it was created, found"
                f" {self._setting(name)!r}",
                fix="use the same setting in the session (in Airflow, in the field conf of the"
                " connection), or create the view again in a session like this one",
            )
        return settings(self._spark, different)

    def _setting(self, name: str) -> str | None:
        try:
            return self._spark.conf.get(name)
        except PySparkException:
            return None  # Spark does not know it, and it is not set

    def _run(self, text: str, parts: Sequence[Rows]) -> DataFrame:
        """The result of ``text``, in which numbered names mean the parts."""
        text = text.replace("{", "{{").replace("}", "}}")
        frames: dict[str, Any] = {}
        for index, part in reversed(list(enumerate(parts))):
            text = text.replace(f"{_RELATION}{index}`", f"{{r{index}}}`")
            frames[f"r{index}"] = part.frame
        return self._spark.sql(text, **frames)


def _renamed(name: str, found: StructField, wanted: StructField) -> Column | str:
    """The column ``name`` as ``wanted``, as an SQL text if that is enough."""
    if found.dataType == wanted.dataType and not wanted.metadata:
        return f"{name} AS {quote(wanted.name)}"
    # The metadata holds the length of a CHAR(n): Spark pads what it compares with such a column.
    return F.col(name).cast(wanted.dataType).alias(wanted.name, metadata=wanted.metadata)


def _unreadable(view: tuple[str, ...], error: Exception) -> InvalidRange:
    return InvalidRange(
        f"view {'.'.join(view)}",
        "cannot be read with an earlier state of its tables",
        cause=first_line(error),
        fix="name a later point, at which its tables have the columns that it needs",
    )
