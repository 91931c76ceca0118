"""What a stream is on: tables, a view or a folder, and the offset in each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..summaries import moment_text

# Gives every row id sixteen hexadecimal digits. Padding the text takes five times as long.
ROW_ID_MARK = 1 << 60


def row_id_text(number: int) -> str:
    """Delta's row id ``number`` as text, as the change set of a table shows it."""
    return f"{number | ROW_ID_MARK:x}"


@dataclass(frozen=True, slots=True)
class Source:
    """The Delta table that a stream reads.

    ``location`` is the root of the table as Spark names it (a URI or an absolute path). ``name`` is
    the user's name for it and is used in messages only. ``table_id`` is the id in the table's
    ``metaData`` action. It distinguishes a recreated table from the original.
    """

    name: str
    location: str
    table_id: str


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in a source's log, and what a read of the old side needs.

    ``version`` is the last consumed version: changes after it are new. ``fingerprint`` is a hash of
    that version's commit file. It shows whether the log was replaced. ``metadata`` and ``protocol``
    are the Delta actions in force at ``version``. ``row_id_high_water_mark`` is the highest row id
    assigned up to ``version`` (-1: none). ``timestamp`` is the commit's own time. Version -1 is
    before version 0: the table has no rows yet.
    """

    version: int
    fingerprint: str
    timestamp: datetime
    metadata: Mapping[str, Any] = field(hash=False)
    protocol: Mapping[str, Any] = field(hash=False)
    row_id_high_water_mark: int

    def __repr__(self) -> str:
        return f"<Offset version {self.version} of {moment_text(self.timestamp)}>"

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties in force at the offset."""
        return self.metadata.get("configuration") or {}

    @property
    def table_id(self) -> str:
        """The id of the table that has this offset."""
        return str(self.metadata["id"])


@dataclass(frozen=True, slots=True)
class Base:
    """A table that a stream reads, and the stream's offset in it."""

    source: Source
    offset: Offset


@dataclass(frozen=True, slots=True)
class View:
    """The view that a stream is on.

    ``name`` is its qualified name as SQL. ``fingerprint`` is a hash of its definition and of the
    definitions of the views in it. It distinguishes a redefined view from the original. ``leaves``
    holds, for each table reference of the view in order, the index of the base that it reads.
    """

    name: str
    fingerprint: str
    leaves: tuple[int, ...]


class FileFormat(StrEnum):
    """The file formats that a stream can read, by their names in Spark."""

    AVRO = "avro"
    CSV = "csv"
    JSON = "json"
    ORC = "orc"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of files that a stream reads, with the folders below it.

    ``uri`` is in the form that Spark opens. ``options`` are the options of Spark's reader of
    ``file_format``. ``schema`` is the JSON of the columns, including those of ``key=value``
    folders. Only files whose names match the Hadoop glob ``name_glob`` count.
    """

    uri: str
    file_format: FileFormat
    options: Mapping[str, str]
    schema: str
    name_glob: str | None = None

    def __repr__(self) -> str:
        glob = "" if self.name_glob is None else f", names like {self.name_glob}"
        return f"<Folder {self.uri}, {self.file_format.value} files{glob}>"
