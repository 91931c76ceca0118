"""The lineage of consumptions and exports, in the form of Airflow's OpenLineage provider.

This module is imported only if that provider asks for the lineage of a task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.openlineage.facet import (
    Dataset,
    Identifier,
    OutputDataset,
    OutputStatisticsOutputDatasetFacet,
    SymlinksDatasetFacet,
)
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.facet_v2 import dataset_version_dataset

from airflow_provider_cdc.engine.core.errors import InvalidName
from airflow_provider_cdc.engine.core.model.outcomes import Outcome, StatementOutcome
from airflow_provider_cdc.engine.core.names import name_key, qualified_name, table_name
from airflow_provider_cdc.engine.core.shown_values import without_credentials
from airflow_provider_cdc.engine.core.sql.column_lineage import ColumnLineage, column_lineage
from airflow_provider_cdc.jobs.model import Export, ExportChanges, ExportTable, Lineage

from .column_facets import ColumnFacet, DatasetName
from .consumed import Consumed

log = logging.getLogger(__name__)

_S3 = ("s3", "s3a", "s3n")
_ROWS = "numOutputRows"
# The name of the exported changes in the statement that says where their columns go.
_EXPORTED = "exported"


def lineage_of(consumed: Iterable[Consumed]) -> OperatorLineage[Any, Any]:
    """The tables that consumptions read and wrote, each with its version, and where the columns of
    targets come from, if the SQL shows it.
    """
    found = _Datasets()
    for each in consumed:
        names = _Names.of(each.outcome)
        for table in (table for stream in each.outcome.streams for table in stream.tables):
            name = dataset_name(table.location or table.table)
            found.inputs[name] = Dataset(*name, facets=_facets(table.table, table.through_version))
        for statement in each.outcome.statements:
            name = dataset_name(statement.location or statement.target)
            rows = statement.metrics.get(_ROWS)
            found.outputs[name] = OutputDataset(
                *name,
                facets=_facets(statement.target, statement.target_version),
                outputFacets={}
                if rows is None
                else {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=rows)},
            )
            found.add_columns(name, _columns_of(statement, each), names)
    return found.lineage()


def lineage_of_export(task: Export, known: Lineage) -> OperatorLineage[Any, Any]:
    """What an export read and wrote.

    :param known: what its job answered; empty if it could not determine it
    """
    source = task.table if isinstance(task, ExportTable) else task.name
    name = dataset_name(known.source or source)
    end = task.end if isinstance(task, ExportChanges) else None
    target = dataset_name(known.target or task.target)
    found = _Datasets()
    found.inputs[name] = Dataset(*name, facets=_facets(source, (end or {}).get("version")))
    facets = _facets(task.target, known.target_version)
    found.outputs[target] = OutputDataset(*target, facets=facets)
    columns = {_EXPORTED: known.tables.get(known.source or "")}
    statement = f"INSERT INTO target BY NAME SELECT * FROM {_EXPORTED}"
    lineage = column_lineage(statement, columns, known.tables.get(known.target or ""))
    found.add_columns(target, lineage, _Names({_EXPORTED: name}, {}))
    return found.lineage()


def dataset_name(location: str) -> tuple[str, str]:
    """The namespace and the name of a table in OpenLineage's naming, by its location.

    :param location: a path, a URI, or a name in a catalog
    """
    parts = urlsplit(without_credentials(location))
    if location.startswith("/") or parts.scheme == "file":
        return "file", parts.path
    if not parts.netloc:
        return "spark_catalog", location
    scheme = "s3" if parts.scheme in _S3 else parts.scheme
    return f"{scheme}://{parts.netloc}", parts.path.strip("/")


@dataclass(frozen=True, slots=True)
class _Names:
    """The datasets of the streams and tables of a consumption, by their keys."""

    streams: Mapping[str, DatasetName]
    tables: Mapping[str, DatasetName]

    @classmethod
    def of(cls, outcome: Outcome) -> _Names:
        """The names of what ``outcome`` names."""
        streams = {each.name: each.tables[0] for each in outcome.streams if each.tables}
        known = [(each.table, each.location) for each in streams.values()]
        known += [(each.target, each.location) for each in outcome.statements]
        return cls(
            {name: dataset_name(table.location or table.table) for name, table in streams.items()},
            {_key(name): dataset_name(location) for name, location in known if location},
        )

    def name_of(self, parts: tuple[str, ...]) -> DatasetName:
        """The dataset of the stream or table that a statement names by ``parts``."""
        if len(parts) == 1 and parts[0] in self.streams:
            return self.streams[parts[0]]
        name = qualified_name(parts)
        known = self.tables.get(name_key(name.sql))
        return known or dataset_name(name.path or ".".join(name.parts))


@dataclass(frozen=True, slots=True)
class _Datasets:
    """The inputs and outputs of a task, and the columns of outputs, by their names."""

    inputs: dict[DatasetName, Dataset] = field(default_factory=dict)
    outputs: dict[DatasetName, OutputDataset] = field(default_factory=dict)
    columns: dict[DatasetName, ColumnFacet] = field(default_factory=dict)

    def add_columns(self, output: DatasetName, lineage: ColumnLineage, names: _Names) -> None:
        """Add what a statement that writes to ``output`` reads."""
        self.columns.setdefault(output, ColumnFacet()).add(lineage, names.name_of)
        for table in lineage.tables:
            name = names.name_of(table.parts or ("delta", table.path or ""))
            self.inputs.setdefault(name, Dataset(*name))

    def lineage(self) -> OperatorLineage[Any, Any]:
        """The lineage of the task. What it wrote itself is no input."""
        for name, columns in self.columns.items():
            output = self.outputs[name]
            output.facets = {**(output.facets or {}), **columns.facet()}
        inputs = [each for name, each in self.inputs.items() if name not in self.outputs]
        return OperatorLineage(inputs=inputs, outputs=list(self.outputs.values()))


def _columns_of(statement: StatementOutcome, consumed: Consumed) -> ColumnLineage:
    """The lineage of the columns that a statement wrote; empty if it cannot be determined."""
    known = consumed.lineage
    if statement.index >= len(consumed.statements):
        return ColumnLineage()
    streams = {each.name: known.streams.get(each.name) for each in consumed.outcome.streams}
    text = consumed.statements[statement.index]
    try:
        return column_lineage(text, streams, known.tables.get(statement.location))
    except Exception:
        # Without the columns, the lineage of the tables is still right.
        log.warning("Cannot trace the columns of %s", statement.target, exc_info=True)
        return ColumnLineage()


def _key(table: str) -> str:
    try:
        return name_key(table_name(table).sql)
    except InvalidName:
        return name_key(table)


def _facets(table: str, version: int | str | None) -> dict[str, Any]:
    """The version of a table, if it is known, and its name in the catalog if it has one."""
    found: dict[str, Any] = {}
    if version is not None:
        found["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=str(version)
        )
    try:
        name = table_name(table)
    except InvalidName:
        return found
    if name.path is None:
        identifier = Identifier(namespace="spark_catalog", name=".".join(name.parts), type="TABLE")
        found["symlinks"] = SymlinksDatasetFacet(identifiers=[identifier])
    return found
