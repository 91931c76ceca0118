"""How the rows of a view change with the rows of its tables.

The rows of each table reference come in two parts. The ``still`` rows are the same at both ends of
the range. The ``moved`` rows come as they were (tag -1) and as they are (tag 1). A view row exists
at an end if it joins rows of that end only. It can have changed only if one of these rows moved.

The reader takes one reference after another. It joins the moved rows of the reference with the
still rows of the references before it and with all rows of the references after it. So every
changed combination appears once, and a combination of only still rows never appears. If rows of
several references moved, the reader joins each end separately, because a condition that fails for
rows of different ends must not be evaluated for them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache, reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...core.change_sets.read_plan import ReadPlan, Strategy, plan_initial_rows
from ...core.delta.layout_history import layout_history
from ...core.delta.table_schema import Layout, other_columns
from ...core.delta.tracking import precedes_all
from ...core.errors import StreamStale
from ...core.model.stream import METADATA_COLUMNS, ColumnStyle, MetadataColumns, Stream, StreamMode
from ...core.names import name_key, quote
from ...core.views.relations import Relation, changed_meaning, leaves, variants
from ...storage.sources.source_log import SourceRange, StreamSpan
from ..change_sets.initial_rows import all_rows
from ..change_sets.metadata_columns import check_names, number_of
from ..change_sets.netting import INSERT, NEW, OLD, all_changes, changes_of, same_values
from ..change_sets.row_columns import ROW, ROW_ID, union
from ..change_sets.table_changes_reader import ChangeSetReader
from ..session.failures import first_line
from .evaluation import Evaluation, Rows
from .view_definitions import ViewDefinitions, ViewQuery

_ID, _TAG = "__cdc_id", "__cdc_tag"
_SIGN = "sign"
_STYLES = {frozenset(astuple(names)): names for names in METADATA_COLUMNS.values()}


@dataclass(frozen=True, slots=True)
class ViewChanges:
    """The changes of a view, not yet read: ``rows`` has action, is-update, the row and its id.

    ``reused`` are frames that ``rows`` reads more than once.
    """

    rows: DataFrame
    schema: StructType
    plans: tuple[ReadPlan, ...]
    reused: tuple[DataFrame, ...]
    scratch: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _TableRows:
    """The rows of one base table: the table's columns, Delta's row id and the tag.

    ``moved`` is ``None`` if no row moved.
    """

    still: DataFrame
    moved: DataFrame | None

    def part(self, number: int, *, still: bool, moved: bool, sign: int | None = None) -> Rows:
        """The rows for the table reference ``number``, with hidden columns named after it.

        :param sign: the end whose moved rows are taken; ``None``: those of both ends
        """
        frames = [self.still] if still else []
        if moved and self.moved is not None:
            frames.append(self.moved if sign is None else self.moved.where(f"{_TAG} = {sign}"))
        rows = union(frames)
        hidden = (f"{_ID}_{number}", f"{_TAG}_{number}")
        return Rows(rows.withColumnsRenamed({_ID: hidden[0], _TAG: hidden[1]}), hidden)


class ViewReader:
    """Reads the changes of views, and the rows that a view had at an offset."""

    def __init__(
        self, spark: SparkSession, reader: ChangeSetReader, definitions: ViewDefinitions
    ) -> None:
        self._spark = spark
        self._reader = reader
        self._definitions = definitions

    def changes(self, span: StreamSpan) -> ViewChanges:
        """The changes of the stream's view in ``span``.

        Snowflake: the changes of a join are the changes of the left joined with the right, the
        changes of the right joined with the left, and the changes of both joined with each other.
        An append-only stream joins the inserted rows with each other and with all rows at the
        offset.

        :raises StreamStale: the view or one of its tables is a different one now
        """
        query, schema = self._query(span.stream)
        _check_meaning(query, span)
        reading = _Reading(self._spark, self._reader, span)
        tables = [reading.table(table) for table in span.tables]
        evaluation = self._evaluation(query, tables)
        ends = (-1, 1) if span.stream.mode is StreamMode.STANDARD else (1,)
        parts = [
            term
            for number, variant in enumerate(variants(query.relation))
            for term in _terms(evaluation, number, variant, query.leaves, tables, ends)
        ]
        rows = _netted(union(parts), span.stream.mode, schema) if parts else self._none(schema)
        return ViewChanges(
            rows, schema, tuple(reading.plans), tuple(reading.reused), tuple(reading.scratch)
        )

    def rows_at_offset(self, span: StreamSpan) -> ViewChanges:
        """All rows of the stream's view at its offset, each as one insert.

        :raises InvalidRange: at the offset, its tables lacked columns that it needs
        """
        query, schema = self._query(span.stream)
        tables = [_TableRows(_all_rows(self._spark, base), None) for base in span.tables]
        evaluation = self._evaluation(query, tables)
        parts = []
        for number, variant in enumerate(variants(query.relation)):
            numbers = [leaf.number for leaf in leaves(variant)]
            given = {
                leaf: tables[query.leaves[leaf]].part(leaf, still=True, moved=False)
                for leaf in numbers
            }
            parts.append(_signed(evaluation.rows(variant, given), number, numbers, None))
        plans = (plan_initial_rows(),) * len(span.tables)
        return ViewChanges(all_changes(union(parts), INSERT), schema, plans, (), ())

    def _query(self, stream: Stream) -> tuple[ViewQuery, StructType]:
        """The stream's view as it is now, and its columns."""
        assert stream.view is not None
        locations = [base.source.location for base in stream.bases]
        query = self._definitions.current(stream.name, stream.view, locations)
        try:
            schema = self._spark.table(query.name.sql).schema
        except AnalysisException as error:
            raise StreamStale(
                f"stream {stream.name}",
                f"is stale, its view {stream.view.name} can no longer be read",
                cause=first_line(error),
                fix="repair the view or its tables, or create the stream again",
            ) from None
        check_names(stream, schema.names)
        return query, schema

    def _evaluation(self, query: ViewQuery, tables: Sequence[_TableRows]) -> Evaluation:
        plain = [table.still.drop(_ID, _TAG) for table in tables]
        return Evaluation(
            self._spark,
            {number: plain[base] for number, base in enumerate(query.leaves)},
            # Cached, because each term needs the columns of each nested view.
            cache(lambda parts: self._spark.table(".".join(map(quote, parts))).schema),
            query.outputs,
            query.settings,
        )

    def _none(self, schema: StructType) -> DataFrame:
        row = self._spark.createDataFrame([], schema).select(F.struct("*").alias(ROW))
        return all_changes(row.selectExpr(f"'' AS {ROW_ID}", ROW), INSERT)


def _check_meaning(query: ViewQuery, span: StreamSpan) -> None:
    """Refuse a range in which a change of a table's columns changed the meaning of the view. Then
    its rows can differ although no row of a table differs.

    :raises StreamStale: names what has another meaning
    """
    if all(precedes_all(table.start) for table in span.tables):
        return  # The view had no rows then.
    for base, table in enumerate(span.tables):
        numbers = [number for number, leaf in enumerate(query.leaves) if leaf == base]
        steps = layout_history(table.start, table.commits).steps()
        others = other_columns(steps)
        before, now = steps[0].column_names, steps[-1].column_names
        found = changed_meaning(query.relation, before, now, others, numbers=numbers)
        if found is not None:
            raise StreamStale(
                f"stream {span.stream.name}",
                f"is stale, its view {query.name.sql} may mean something else, because"
                f" {table.stream.source.name} has other columns now",
                cause=f"it has {found}",
                fix="advance it with AdvanceStream or engine.advance_stream(stream), or create it"
                " again; then load the view again",
            )


class _Reading:
    """Reads the base tables of one span, and collects plans, reused frames and scratch folders."""

    def __init__(self, spark: SparkSession, reader: ChangeSetReader, span: StreamSpan) -> None:
        self._spark = spark
        self._reader = reader
        self._stream = span.stream
        self.plans: list[ReadPlan] = []
        self.reused: list[DataFrame] = []
        self.scratch: list[str] = []

    def table(self, span: SourceRange) -> _TableRows:
        """The rows of one base table, in the parts that the stream's mode needs."""
        now = _all_rows(self._spark, span)
        if self._stream.mode is StreamMode.STANDARD:
            changes = self._changes(span, StreamMode.STANDARD, keeps_plan=True)
            if changes is None:
                return _TableRows(now, None)
            return _TableRows(_unmoved(now, changes), _tagged(changes))
        changes = self._changes(span, StreamMode.STANDARD, keeps_plan=False)
        inserted = self._changes(span, StreamMode.APPEND_ONLY, keeps_plan=True)
        if changes is None:
            return _TableRows(now, None if inserted is None else _tagged(inserted))
        old = changes.where(f"{quote(_own(changes).action)} = 'DELETE'")
        before = _tagged(old).withColumn(_TAG, F.lit(0))
        then = _unmoved(now, changes).unionByName(before)
        return _TableRows(then, None if inserted is None else _tagged(inserted))

    def _changes(
        self, span: SourceRange, mode: StreamMode, *, keeps_plan: bool
    ) -> DataFrame | None:
        """The changes of a table; ``None``: its log shows that there are no changes."""
        stream = replace(span.stream, mode=mode, column_style=_free_style(span))
        found = self._reader.read(replace(span, stream=stream))
        self.scratch.extend(found.scratch)
        if keeps_plan:
            self.plans.append(found.plan)
        if found.plan.strategy is Strategy.NOTHING:
            return None
        self.reused.append(found.rows)
        return found.rows


def _terms(
    evaluation: Evaluation,
    number: int,
    variant: Relation,
    bases: Sequence[int],
    tables: Sequence[_TableRows],
    ends: tuple[int, ...],
) -> list[DataFrame]:
    """The changed rows of a variant, for each table reference that may be the first to have moved.

    :param ends: the tags of the moved rows that exist
    """
    numbers = [leaf.number for leaf in leaves(variant)]
    moving = [place for place, leaf in enumerate(numbers) if tables[bases[leaf]].moved is not None]
    signs = (None,) if len(moving) == 1 else ends
    terms = []
    for place, sign in itertools.product(moving, signs):
        moved = numbers[place]
        given = {
            leaf: tables[bases[leaf]].part(
                leaf, still=other != place, moved=other >= place, sign=sign
            )
            for other, leaf in enumerate(numbers)
        }
        found = evaluation.rows(variant, given)
        terms.append(_signed(found, number, numbers, moved))
    return terms


def _signed(found: Rows, variant: int, numbers: Sequence[int], moved: int | None) -> DataFrame:
    """Rows of a variant that belong to one end, with the view's row id and the sign of that end.

    :param moved: the table reference whose moved rows they join; ``None``: all rows belong together
    """
    tags = [F.col(f"{_TAG}_{leaf}") for leaf in numbers]
    sign = F.lit(1) if moved is None else F.col(f"{_TAG}_{moved}")
    belongs: Column = reduce(
        lambda left, right: left & right, [(tag == 0) | (tag == sign) for tag in tags]
    )
    shown = [quote(name) for name in found.frame.columns if name not in found.hidden]
    ids = [F.col(f"{_ID}_{leaf}") for leaf in numbers]
    rows = found.frame if moved is None else found.frame.where(belongs)
    return rows.select(
        F.md5(F.concat_ws(":", F.lit(variant), *ids)).alias(ROW_ID),
        sign.alias(_SIGN),
        F.struct(*shown).alias(ROW),
    )


def _netted(signed: DataFrame, mode: StreamMode, schema: StructType) -> DataFrame:
    if mode is not StreamMode.STANDARD:
        return all_changes(signed, INSERT)
    pairs = signed.groupBy(ROW_ID).agg(
        F.first(F.expr(f"IF({_SIGN} < 0, {ROW}, NULL)"), ignorenulls=True).alias(OLD),
        F.first(F.expr(f"IF({_SIGN} > 0, {ROW}, NULL)"), ignorenulls=True).alias(NEW),
    )
    return changes_of(pairs, f"{OLD} IS NOT NULL", f"{NEW} IS NOT NULL", same_values(schema))


def _all_rows(spark: SparkSession, span: SourceRange) -> DataFrame:
    """All rows of a table at the end of ``span``, tagged as rows that did not move."""
    rows = all_rows(spark, span)
    return rows.withColumnRenamed(ROW_ID, _ID).withColumn(_TAG, F.lit(0))


def _own(changes: DataFrame) -> MetadataColumns:
    """The names of the three columns that a change set adds."""
    return _STYLES[frozenset(changes.columns[-3:])]


def _free_style(span: SourceRange) -> ColumnStyle:
    """A style whose names no column of a base table has. It can differ from the style of the view
    stream. A table of consumed changes already has the names of one style.
    """
    columns = Layout.of(span.end.metadata).column_names
    taken = {name_key(name) for name in columns}
    free = (
        style
        for style, names in METADATA_COLUMNS.items()
        if taken.isdisjoint(name_key(name) for name in astuple(names))
    )
    return next(free, span.stream.column_style)


def _tagged(changes: DataFrame) -> DataFrame:
    """Rows of a change set with Delta's row id and the tag of their end."""
    columns = [quote(name) for name in changes.columns[:-3]]
    own = _own(changes)
    tag = f"IF({quote(own.action)} = 'INSERT', 1, -1)"
    return changes.selectExpr(*columns, f"{number_of(own)} AS {_ID}", f"{tag} AS {_TAG}")


def _unmoved(now: DataFrame, changes: DataFrame) -> DataFrame:
    """The rows of ``now`` that existed at the offset and have not changed since."""
    own = _own(changes)
    new = changes.where(f"{quote(own.action)} = 'INSERT'")
    ids = new.selectExpr(f"{number_of(own)} AS {_ID}")
    return now.join(ids, _ID, "left_anti").select(*[quote(name) for name in now.columns])
