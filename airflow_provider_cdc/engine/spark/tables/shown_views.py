"""Views in the catalog that show the rows of a table as its readers want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...core.errors import TableExists
from ...core.names import TableName
from ..session.session_settings import escaped_literals
from .delta_tables import table_properties

_VIEW_OF = "airflow_provider_cdc.view_of"


@dataclass(frozen=True, slots=True)
class ShownViews:
    """The views of one session. Each remembers the table that it shows."""

    spark: SparkSession

    def is_view_of(self, name: TableName, table: str) -> bool:
        """Whether ``name`` is a view that the engine made of a table.

        :param table: the table, as SQL
        """
        found = self.spark.sql(f"SHOW TBLPROPERTIES {name.sql}").collect()
        return (_VIEW_OF, table) in [tuple(row) for row in found]

    def check_free(self, subject: str, name: TableName, table: str) -> None:
        """Refuse a name that something else has than the view of ``table``.

        :raises TableExists: it is taken
        """
        if self.spark.catalog.tableExists(name.sql) and not self.is_view_of(name, table):
            raise TableExists(
                subject,
                "exists already",
                cause=f"expected no table and no view of that name, except one of {table}",
                fix="choose another name, or drop it",
            )

    def show(self, name: TableName, table: str, columns: Sequence[str], query: str) -> None:
        """Create or update a view, so that it has the columns of its query.

        :param columns: the columns of ``query``, in order
        """
        if self._columns(name) == list(columns):
            return
        properties = table_properties({_VIEW_OF: table})
        with escaped_literals(self.spark):
            self.spark.sql(f"CREATE OR REPLACE VIEW {name.sql} {properties} AS {query}")

    def _columns(self, name: TableName) -> list[str] | None:
        """The columns that a view shows. A view of a table that was dropped may show others."""
        try:
            return self.spark.table(name.sql).columns
        except PySparkException:
            return None
