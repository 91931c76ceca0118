"""The lineage of consumptions, in the form of Airflow's OpenLineage provider.

This module is imported only if that provider asks for the lineage of a task.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from airflow_provider_cdc.engine.core.model.outcomes import Outcome
from airflow_provider_cdc.engine.core.names import table_name
from airflow_provider_cdc.engine.core.shown_values import without_credentials

_S3 = ("s3", "s3a", "s3n")
_ROWS = "numOutputRows"


def lineage_of(outcomes: Iterable[Outcome]) -> OperatorLineage[Any, Any]:
    """The tables that consumptions read and wrote, each with its version."""
    inputs: dict[tuple[str, str], Dataset] = {}
    outputs: dict[tuple[str, str], OutputDataset] = {}
    for outcome in outcomes:
        for table in (table for stream in outcome.streams for table in stream.tables):
            name = dataset_name(table.location or table.table)
            facets = _facets(table.table, table.through_version)
            inputs[name] = Dataset(*name, facets=facets)
        for statement in outcome.statements:
            name = dataset_name(statement.location or statement.target)
            rows = statement.metrics.get(_ROWS)
            outputs[name] = OutputDataset(
                *name,
                facets=_facets(statement.target, statement.target_version),
                outputFacets={}
                if rows is None
                else {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=rows)},
            )
    return OperatorLineage(inputs=list(inputs.values()), outputs=list(outputs.values()))


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


def _facets(table: str, version: int) -> dict[str, Any]:
    """The version of a table, and its name in the catalog if it has one."""
    found: dict[str, Any] = {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(version))
    }
    try:
        name = table_name(table)
    except InvalidName:
        return found
    if name.path is None:
        identifier = Identifier(namespace="spark_catalog", name=".".join(name.parts), type="TABLE")
        found["symlinks"] = SymlinksDatasetFacet(identifiers=[identifier])
    return found
