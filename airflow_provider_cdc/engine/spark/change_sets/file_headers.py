"""The headers of CSV files, parsed by Spark's own parser."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...core.folders.csv_headers import HeaderStyle, column_names
from ...core.model.sources import Folder
from ...storage.files.csv_heads import heads
from ...storage.files.stores import Files

# The options that decide where a column ends.
_OF_THE_PARSER = frozenset(
    {"sep", "delimiter", "quote", "escape", "chartoescapequoteescaping", "maxcolumns"}
    | {"ignoreleadingwhitespace", "ignoretrailingwhitespace", "unescapedquotehandling"}
)
_COLUMN = re.compile(r"_c\d+: ")


def headers(
    spark: SparkSession, files: Files, folder: Folder, uris: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The names in the header of each file; empty if a file has no line.

    :raises FileNotFoundError: one of the files is missing
    :raises BrokenHead: one of the files cannot be read
    """
    found = heads(files, uris, HeaderStyle.of(folder.options))
    known = {text: _names(spark, folder, text) for text in set(found.values())}
    return {
        uri: known[found[uri]] if uri in found else _names_by_spark(spark, folder, uri)
        for uri in uris
    }


def _names(spark: SparkSession, folder: Folder, header: str) -> tuple[str, ...]:
    if not header:
        return ()
    given = folder.options.items()
    # An empty map has no types over Spark Connect.
    options = {name: value for name, value in given if name.lower() in _OF_THE_PARSER} or None
    one_row = spark.createDataFrame(pa.table({"header": [header]}))
    (kinds,) = one_row.select(F.schema_of_csv(F.lit(header), options)).collect()
    columns = ", ".join(f"_c{place} STRING" for place in range(len(_COLUMN.findall(kinds[0]))))
    (found,) = one_row.select(F.from_csv("header", columns, options)).collect()
    return column_names(found[0])


def _names_by_spark(spark: SparkSession, folder: Folder, uri: str) -> tuple[str, ...]:
    """The names in the header of a file that only Spark can open."""
    reader = spark.read.format(folder.file_format.value).options(**folder.options)
    reader = reader.options(header="false", inferSchema="false", recursiveFileLookup="true")
    found = reader.options(__globPaths__="false").load([uri]).head(1)
    return column_names(found[0]) if found else ()
