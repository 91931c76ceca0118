"""The Delta tables of history targets: finding, creating and altering them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StringType, StructField

from ...core.delta.column_steps import Add, adapted, plain
from ...core.delta.columns import Column, clustering_key
from ...core.delta.table_schema import MAPPING_MODE
from ...core.delta.tracking import ENABLED
from ...core.errors import InvalidRequest
from ...core.history.events import APPLIED_AT, KIND, REASON, SEQUENCE
from ...core.history.options import (
    PROPERTY,
    HistoryOptions,
    check_unchanged,
    stored_options,
    with_alterations,
)
from ...core.history.shape import (
    HistoryShape,
    check_comparable,
    check_key_type,
    chosen_columns,
    history_shape,
    own_columns,
    sequence_sql,
)
from ...core.model.tables import Table
from ...core.names import TableName, name_key, quote, table_name
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ..session.session_settings import escaped_literals
from ..tables.altering import TYPE_WIDENING, Altered, alter, needs_mapping, refused_by_spark
from ..tables.delta_tables import Tables, table_properties
from ..tables.shown_views import ShownViews
from ..tables.sql_types import sql_type
from .history_target import INCOMING, MEMORY, HistoryTarget
from .source_rows import STREAM_ORDER, SourceRows, sequence_type

_PROPERTIES = {
    ENABLED: "true",
    "delta.enableDeletionVectors": "true",
    TYPE_WIDENING: "true",
}


@dataclass(frozen=True, slots=True)
class HistoryTables:
    """The history targets of one session."""

    spark: SparkSession
    tables: Tables
    files: Files

    def get(self, name: TableName) -> HistoryTarget:
        """The history target of that name.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: the table is not a history target
        """
        return self._of(self.tables.get(name))

    def known_columns(self, name: TableName) -> tuple[Column, ...] | None:
        """The columns that the target of that name takes from its source; ``None``: it does not
        exist, or is not a history target yet.
        """
        table = self.tables.find(name)
        options = None if table is None else self._stored_options(table)
        if table is None or options is None:
            return None
        return self._described(table, options).data_columns

    def opened(
        self,
        name: TableName,
        options: HistoryOptions,
        source: SourceRows,
        cluster_by: Sequence[str] | None,
    ) -> HistoryTarget:
        """The history target of that name, with all columns of ``source``. It is created if it does
        not exist.

        :raises InvalidRequest: the options contradict those of the table, or it cannot have the
            columns of the source
        """
        table = self.tables.find(name)
        if options.current_view is not None:
            view = table_name(options.current_view)
            self._views.check_free(f"view {options.current_view}", view, name.sql)
        target = self._found(name, table, options, source, cluster_by)
        self._show(target)
        return target

    def _show(self, target: HistoryTarget) -> None:
        """Create or update the view of the rows that are current."""
        if target.options.current_view is None:
            return
        columns = list(target.shape.data)
        query = (
            f"SELECT {', '.join(map(quote, columns))} FROM {target.sql}"
            f" WHERE {target.shape.is_current}"
        )
        view = table_name(target.options.current_view)
        self._views.show(view, target.table.sql, columns, query)

    @property
    def _views(self) -> ShownViews:
        return ShownViews(self.spark)

    def _found(
        self,
        name: TableName,
        table: Table | None,
        options: HistoryOptions,
        source: SourceRows,
        cluster_by: Sequence[str] | None,
    ) -> HistoryTarget:
        if table is None:
            return self._created(name, options, source, cluster_by)
        stored = self._stored_options(table)
        if stored is None:
            return self._adopted(table, options, source)
        check_unchanged(f"history target {name.sql}", stored, options)
        altered = with_alterations(stored, options)
        if altered != stored:
            self._remember(table.sql, altered)
        self._follow(table, options, source)
        return self._described(table, altered)

    def _stored_options(self, table: Table) -> HistoryOptions | None:
        metadata = DeltaLog(table.location, self.files).newest_state().metadata
        text = (metadata.get("configuration") or {}).get(PROPERTY)
        return None if text is None else stored_options(f"history target {table.name}", text)

    def _of(self, table: Table) -> HistoryTarget:
        options = self._stored_options(table)
        if options is None:
            raise InvalidRequest(
                f"table {table.name}",
                "is not a history target",
                cause=f"expected the table property {PROPERTY}, found none",
                fix="name a table that apply_changes created",
            )
        return self._described(table, options)

    def _described(self, table: Table, options: HistoryOptions) -> HistoryTarget:
        schema = self.spark.read.format("delta").load(table.location).schema
        keys = [name_key(name) for name in options.keys]
        own = {name_key(name) for name in own_columns(options)}
        found = {name_key(field.name): field for field in schema.fields}
        names = {key: field.name for key, field in found.items() if key not in own}
        values = [name for key, name in names.items() if key not in keys]
        shape = history_shape(
            options,
            [names[key] for key in keys],
            {name: sql_type(found[name_key(name)].dataType) for name in values},
            self._sequence_type(table, options, found),
        )
        table_id = self.tables.newest_offset(table).table_id
        return HistoryTarget(table.name, table, options, shape, schema, table_id)

    def _sequence_type(
        self, table: Table, options: HistoryOptions, fields: Mapping[str, StructField]
    ) -> str:
        start = fields.get(name_key(options.start_column))
        if options.is_in_order and not options.is_type_2:
            return STREAM_ORDER
        if start is not None:
            return sql_type(start.dataType)
        rows = self.spark.read.format("delta").load(table.location)
        return sql_type(rows.selectExpr(sequence_sql(options)).schema[0].dataType)

    def _created(
        self,
        name: TableName,
        options: HistoryOptions,
        source: SourceRows,
        cluster_by: Sequence[str] | None,
    ) -> HistoryTarget:
        subject = f"history target {name.sql}"
        kinds = {field.name: field.dataType for field in source.fields}
        kind = sql_type(sequence_type(source, options, subject))
        keys, values = self._chosen(subject, options, kinds)
        types = {name: sql_type(kinds[name]) for name in values}
        shape = history_shape(options, keys, types, kind)
        self._check_open_end(subject, options, shape)
        in_order = [each for each in kinds if each in set(shape.data)]
        columns = [f"{quote(each)} {sql_type(kinds[each])}" for each in in_order]
        booleans = {shape.current, shape.deleted}
        columns += [
            f"{quote(each)} {'BOOLEAN' if each in booleans else kind}" for each in shape.own
        ]
        properties = {**_PROPERTIES, PROPERTY: options.as_property()}
        fields = [field for field in source.fields if field.name in set(in_order)]
        if needs_mapping([*fields, *(StructField(each, StringType()) for each in shape.own)]):
            properties[MAPPING_MODE] = "name"
        by = self._clustered(subject, shape, kinds, in_order, cluster_by)
        cluster = f"CLUSTER BY ({', '.join(map(quote, by))})" if by else ""
        self.tables.remove_unfinished(name.path)
        with escaped_literals(self.spark), refused_by_spark(subject):
            self.spark.sql(
                f"CREATE TABLE IF NOT EXISTS {name.sql} ({', '.join(columns)}) USING delta"
                f" {cluster} {table_properties(properties)}"
            )
        return self.get(name)

    def _chosen(
        self, subject: str, options: HistoryOptions, kinds: Mapping[str, DataType]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        keys, values = chosen_columns(subject, options, list(kinds))
        for name in keys:
            check_key_type(subject, name, sql_type(kinds[name]))
        for name in values:
            check_comparable(subject, name, sql_type(kinds[name]))
        return keys, values

    def _check_open_end(self, subject: str, options: HistoryOptions, shape: HistoryShape) -> None:
        """Refuse an end of open intervals that is no value of the sequence."""
        if options.open_end is None:
            return
        try:
            value = self.spark.sql(f"SELECT TRY_{shape.open_end} IS NULL").first()
        except AnalysisException:
            value = None
        if value is None or value[0]:
            raise InvalidRequest(
                subject,
                "cannot have this open_end",
                cause=f"expected a value of {shape.sequence_type}, found {options.open_end!r}",
                fix="pass a value that is greater than every sequence, such as '9999-12-31', or"
                " leave it out",
            )

    def _clustered(
        self,
        subject: str,
        shape: HistoryShape,
        kinds: Mapping[str, DataType],
        in_order: Sequence[str],
        wanted: Sequence[str] | None,
    ) -> tuple[str, ...]:
        known = {name_key(name): name for name in (*in_order, *shape.own)}
        if wanted is not None:
            for name in wanted:
                if name_key(name) not in known:
                    raise InvalidRequest(
                        subject,
                        "cannot be clustered by these columns",
                        cause=f"there is no column {name}",
                        fix="correct cluster_by",
                    )
            return tuple(known[name_key(name)] for name in wanted)
        columns = [Column(name, sql_type(kinds[name])) for name in in_order]
        return clustering_key(columns, shape.keys)

    def _adopted(self, table: Table, options: HistoryOptions, source: SourceRows) -> HistoryTarget:
        """A table that somebody else made, as the copy of a source."""
        subject = f"history target {table.name}"
        if options.needs_intervals:
            raise InvalidRequest(
                subject,
                "exists already, and is not a history target",
                cause="its rows do not show at which sequence they begin",
                fix="name a new table: apply_changes creates it, and a stream with"
                " show_initial_rows=True fills it",
            )
        kinds = {field.name: field.dataType for field in source.fields}
        keys, values = self._chosen(subject, options, kinds)
        held = {name_key(name) for name in (*keys, *values)}
        schema = self.spark.read.format("delta").load(table.location).schema
        for name in schema.names:
            if name_key(name) not in held:
                raise InvalidRequest(
                    subject,
                    f"has a column {name} that its source does not have",
                    cause=f"expected some of {', '.join((*keys, *values))}",
                    fix="drop the column, or name another target",
                )
        for key in keys:
            if name_key(key) not in set(map(name_key, schema.names)):
                raise InvalidRequest(
                    subject,
                    f"has no column {key}",
                    cause="it is in the key",
                    fix="name another target; apply_changes creates it",
                )
        self._remember(table.sql, options)
        self._follow(table, options, source)
        return self._of(table)

    def _follow(self, table: Table, options: HistoryOptions, source: SourceRows) -> None:
        """Give the target, and its memory, the columns and the types of its source."""
        subject = f"history target {table.name}"
        kinds = {field.name: field.dataType for field in source.fields}
        keys, values = self._chosen(subject, self._still_there(options, kinds), kinds)
        for part in ("", MEMORY, INCOMING):
            place = f"{table.location}{part}"
            if not DeltaLog(place, self.files).is_begun:
                continue
            altered = Altered(subject, f"delta.{quote(place)}", place)
            schema = self.spark.read.format("delta").load(place).schema
            stored = {name_key(field.name): field for field in schema.fields}
            for name in (*keys, *values):
                field = stored.get(name_key(name))
                wanted = kinds[name].jsonValue()
                steps = (
                    [Add((name,), plain(wanted))]
                    if field is None
                    else adapted(field.name, field.dataType.jsonValue(), wanted)
                )
                # A type that cannot be widened is stored by assignment, or refused there.
                for step in steps or ():
                    alter(self.spark, self.tables, self.files, altered, step)

    def _still_there(
        self, options: HistoryOptions, kinds: Mapping[str, DataType]
    ) -> HistoryOptions:
        """The options without the columns that the source dropped since. Keys stay."""
        known = set(map(name_key, kinds))

        def of(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(name for name in names if name_key(name) in known)

        return replace(
            options,
            columns=None if options.columns is None else of(options.columns),
            except_columns=of(options.except_columns),
            tracked=None if options.tracked is None else of(options.tracked),
            except_tracked=of(options.except_tracked),
            filled=of(options.filled),
        )

    def _remember(self, sql: str, options: HistoryOptions) -> None:
        self.tables.set_properties(sql, {PROPERTY: options.as_property()})

    def create_memory(self, target: HistoryTarget) -> None:
        """Create the table of the events that no row of ``target`` shows."""
        columns = {**_of_events(target), APPLIED_AT: "TIMESTAMP_LTZ"}
        self._create_beside(target, target.memory, columns, {ENABLED: "false"})

    def create_incoming(self, target: HistoryTarget) -> None:
        """Create the table of the events of queries and snapshots that are not applied."""
        self._create_beside(target, target.incoming, _of_events(target), {})

    def _create_beside(
        self,
        target: HistoryTarget,
        location: str,
        columns: Mapping[str, str],
        properties: Mapping[str, str],
    ) -> None:
        given = {**_PROPERTIES, **properties}
        if needs_mapping(StructField(name, StringType()) for name in columns):
            given[MAPPING_MODE] = "name"
        definitions = [f"{quote(name)} {kind}" for name, kind in columns.items()]
        with refused_by_spark(target.subject):
            self.tables.create_at(location, definitions, given)


def _of_events(target: HistoryTarget) -> dict[str, str]:
    """The columns of stored events, with their types as SQL."""
    kinds = {field.name: sql_type(field.dataType) for field in target.schema.fields}
    data = {name: kinds[name] for name in target.shape.data}
    return {**data, SEQUENCE: target.shape.sequence_type, KIND: "STRING", REASON: "STRING"}
