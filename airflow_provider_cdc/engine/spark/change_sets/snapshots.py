"""All rows of a table at one version."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.errors import StreamUnusable
from ...core.file_options import WHOLE_FILES
from ...storage.source_log import SourceRange
from ..session_settings import is_on
from .rows import ROW, ROW_ID


def all_rows(spark: SparkSession, span: SourceRange) -> DataFrame:
    """The rows of a table at the end of ``span``: Delta's row id, and the columns in one struct.

    :raises StreamUnusable: the session would leave out rows of files that are gone
    """
    for option in WHOLE_FILES:
        # Delta takes no option for it, and a crafted log of a whole table may be long.
        if is_on(spark, setting := f"spark.sql.files.{option}"):
            raise StreamUnusable(
                f"stream {span.stream.name}",
                f"cannot return all rows of {span.stream.source.name}",
                cause=f"with {setting}, rows of files that cannot be read would not be told",
                fix="switch it off in this session",
            )
    reader = spark.read.format("delta").option("versionAsOf", span.end.version)
    rows = reader.load(span.stream.source.location)
    identity = rows.metadataColumn("_metadata").getField("row_id").alias(ROW_ID)
    return rows.select(identity, F.struct("*").alias(ROW))
