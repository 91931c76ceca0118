"""The lineage of columns in the form of OpenLineage. Imported only with its client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from openlineage.client.facet_v2 import column_lineage_dataset as facets

from airflow_provider_cdc.engine.core.sql.column_lineage import ColumnLineage
from airflow_provider_cdc.engine.core.sql.column_tracing import InputColumn, Use

DatasetName = tuple[str, str]
"""The namespace and the name of a dataset."""

_Uses = dict[Use, None]
_Fields = dict[tuple[str, str, str], _Uses]


@dataclass(frozen=True, slots=True)
class ColumnFacet:
    """Where the columns of one output come from, by one or more statements."""

    _columns: dict[str, _Fields] = field(default_factory=dict)
    _rows: _Fields = field(default_factory=dict)

    def add(
        self, lineage: ColumnLineage, name_of: Callable[[tuple[str, ...]], DatasetName]
    ) -> None:
        """Add what a statement says.

        :param name_of: the dataset of a table or stream, by the parts of its name
        """
        for column, inputs in lineage.columns.items():
            _note(self._columns.setdefault(column, {}), inputs, name_of)
        _note(self._rows, lineage.rows, name_of)

    def facet(self) -> dict[str, facets.ColumnLineageDatasetFacet]:
        """The facet by its name; empty if nothing is known."""
        if not self._columns and not self._rows:
            return {}
        fields = {
            column: facets.Fields(inputFields=_input_fields(inputs))
            for column, inputs in self._columns.items()
        }
        found = facets.ColumnLineageDatasetFacet(fields=fields, dataset=_input_fields(self._rows))
        return {"columnLineage": found}


def _note(
    fields: _Fields,
    inputs: Iterable[InputColumn],
    name_of: Callable[[tuple[str, ...]], DatasetName],
) -> None:
    for each in inputs:
        fields.setdefault((*name_of(each.table), each.column), {})[each.use] = None


def _input_fields(found: _Fields) -> list[facets.InputField]:
    return [
        facets.InputField(
            namespace=namespace,
            name=name,
            field=column,
            transformations=[
                facets.Transformation(
                    type="DIRECT" if use.is_direct else "INDIRECT",
                    subtype=use.value.upper(),
                    description="",
                    masking=False,
                )
                for use in uses
            ],
        )
        for (namespace, name, column), uses in found.items()
    ]
