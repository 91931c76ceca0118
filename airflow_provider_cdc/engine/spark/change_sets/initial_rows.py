"""All rows of a table at one version."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...core.delta.table_schema import Layout
from ...core.delta.tracking import precedes_all
from ...core.errors import StreamStale, StreamUnusable
from ...core.folders.file_options import WHOLE_FILES
from ...storage.sources.source_log import SourceRange
from ..session.failures import first_line
from ..session.session_settings import SWITCH_OFF, any_version, is_on
from .columns import spark_fields
from .metadata_columns import check_free
from .row_columns import ROW_ID


def all_rows(spark: SparkSession, span: SourceRange) -> DataFrame:
    """The rows of a table at the end of ``span``, with Delta's row id.

    :raises InvalidRequest: a column has the name of the row id column
    :raises StreamStale: that version can no longer be read
    :raises StreamUnusable: the session would leave out the rows of missing files
    """
    for option in WHOLE_FILES:
        # Delta has no read option for this, and a crafted log of a whole table may be long.
        if is_on(spark, setting := f"spark.sql.files.{option}"):
            raise StreamUnusable(
                f"stream {span.stream.name}",
                f"cannot return all rows of {span.stream.source.name}",
                cause=f"with {setting}, Spark silently leaves out files that it cannot read",
                fix=SWITCH_OFF,
            )
    layout = Layout.of(span.end.metadata)
    check_free(span.stream, layout.column_names, (ROW_ID,))
    if precedes_all(span.end):
        none = spark.createDataFrame([], StructType(spark_fields(layout.fields)))
        return none.select("*", F.lit(None).cast("long").alias(ROW_ID))
    reader = spark.read.format("delta").option("versionAsOf", span.end.version)
    with any_version(spark):
        try:
            rows = reader.load(span.stream.source.location)
        except PySparkException as error:
            if "NOT_FOUND" not in (error.getCondition() or ""):
                raise
            raise StreamStale(
                f"stream {span.stream.name}",
                f"is stale, the rows that {span.stream.source.name} had at version"
                f" {span.end.version} can no longer be read",
                cause=first_line(error),
                fix="create the stream again, with show_initial_rows=True if it had that option",
            ) from None
        identity = rows.metadataColumn("_metadata").getField("row_id").alias(ROW_ID)
        return rows.select("*", identity)
