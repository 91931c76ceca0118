"""What an archive records of its source, in the properties of its Delta table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..change_feed.feed_options import FeedColumns
from ..delta.layout_history import LayoutHistory
from ..delta.log_actions import Commit
from ..delta.table_schema import MAPPING_MODE, MAX_COLUMN_ID, Layout, physical_name
from ..delta.tracking import precedes_all
from ..model.stream import METADATA_COLUMNS, ColumnStyle, Stream
from ..names import name_key

_FEED = FeedColumns()
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = _FEED.names
ROW_ID = METADATA_COLUMNS[ColumnStyle.SNOWFLAKE].row_id
SCHEMA_VERSION = "_schema_version"
COMMIT_DATE = "_commit_date"
# They come before the columns of the source, so that Delta keeps statistics of them.
ARCHIVE_COLUMNS: Mapping[str, str] = {
    COMMIT_VERSION: "BIGINT",
    COMMIT_TIMESTAMP: "TIMESTAMP_LTZ",
    CHANGE_TYPE: "STRING",
    ROW_ID: "STRING",
    SCHEMA_VERSION: "BIGINT",
    COMMIT_DATE: "DATE",
}

_PREFIX = "airflow_provider_cdc.archive."
_TABLE_ID = f"{_PREFIX}table_id"
_SOURCE = f"{_PREFIX}source"
_AFTER = f"{_PREFIX}after"
_AFTER_TIMESTAMP = f"{_PREFIX}after_timestamp"
_IS_WHOLE = f"{_PREFIX}is_whole"
STREAM = f"{_PREFIX}stream"
STREAM_ID = f"{_PREFIX}stream_id"
_ERA = f"{_PREFIX}schema."
_NUMBER_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Era:
    """The source's columns from version ``version`` on, until the next era begins.

    ``origin`` is the index of the era whose columns and column ids it took over: the era before it,
    or one that a RESTORE brought back. The first era has its own index. ``timestamp`` is the time
    of its commit. ``columns`` has, for each column of the ``layout``, the physical name of the
    archive's column that holds its values.
    """

    version: int
    timestamp: datetime
    origin: int
    layout: Layout
    columns: Mapping[str, str]

    def as_property(self, metadata: Mapping[str, Any]) -> tuple[str, str]:
        """The name and the value of the property of the archive that records this era.

        :param metadata: the ``metaData`` action of the layout
        """
        given = metadata.get("configuration") or {}
        settings = {name: given[name] for name in (MAPPING_MODE, MAX_COLUMN_ID) if name in given}
        value = {
            "timestamp": self.timestamp.isoformat(),
            "origin": self.origin,
            "columns": self.columns,
            "schemaString": metadata["schemaString"],
            "partitionColumns": list(metadata.get("partitionColumns") or ()),
            "configuration": settings,
        }
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
        return f"{_ERA}{self.version:0{_NUMBER_DIGITS}d}", text


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive: a Delta table with every change of a source after version ``after``, whose commit
    was at ``after_timestamp``.

    If it ``is_whole``, it began with all rows of the source at that version, as inserts of that
    version. Version -1 is before version 0: the source had no rows. ``stream`` and ``stream_id``
    identify the stream that fills it. ``layout`` is that of the archive itself.
    """

    name: str
    sql: str
    location: str
    table_id: str
    source: str
    after: int
    after_timestamp: datetime
    is_whole: bool
    stream: str
    stream_id: str
    eras: tuple[Era, ...]
    layout: Layout

    @classmethod
    def of(cls, name: str, sql: str, location: str, metadata: Mapping[str, Any]) -> Archive | None:
        """The archive that a ``metaData`` action describes; ``None`` if it is not an archive."""
        properties: Mapping[str, str] = metadata.get("configuration") or {}
        if _TABLE_ID not in properties:
            return None
        found = sorted(key for key in properties if key.startswith(_ERA))
        return cls(
            name,
            sql,
            location,
            properties[_TABLE_ID],
            properties[_SOURCE],
            int(properties[_AFTER]),
            datetime.fromisoformat(properties[_AFTER_TIMESTAMP]),
            properties[_IS_WHOLE] == "true",
            properties[STREAM],
            properties[STREAM_ID],
            tuple(_era(int(key.removeprefix(_ERA)), properties[key]) for key in found),
            Layout.of(metadata),
        )

    @property
    def subject(self) -> str:
        """The subject of messages."""
        return f"archive {self.name}"

    @property
    def first_whole_version(self) -> int | None:
        """The first version of the source whose rows the archive can return; ``None``: it did not
        begin with all rows.
        """
        return max(self.after, 0) if self.is_whole else None

    @property
    def has_initial_rows(self) -> bool:
        """Whether it begins with the rows at version ``after``."""
        return self.is_whole and self.after >= 0

    def history_to(self, place: int) -> LayoutHistory:
        """The layouts of the eras up to the one with the index ``place``."""
        eras = self.eras[: place + 1]
        return LayoutHistory(tuple(era.layout for era in eras), tuple(era.origin for era in eras))

    def era_at(self, version: int) -> int:
        """The index of the era of a version of the source; the first one if it is earlier."""
        return max(sum(era.version <= version for era in self.eras) - 1, 0)

    def era_by(self, moment: datetime) -> int:
        """The index of the era that the source had at a moment; the first one if it is earlier."""
        return max(sum(era.timestamp <= moment for era in self.eras) - 1, 0)

    def origin_of(self, layout: Layout, commit: Commit | None) -> int:
        """The index of the era whose columns ``layout`` took over.

        :param commit: the commit that set ``layout``, if it is known
        """
        is_restore = commit is not None and commit.operation == "RESTORE"
        if commit is not None and not is_restore:
            return len(self.eras) - 1
        version = None if commit is None else commit.operation_parameters.get("version")
        if version is not None:
            return self.era_at(int(version))
        alike = (
            place
            for place, era in enumerate(self.eras)
            if (era.layout.fields, era.layout.mapping_mode) == (layout.fields, layout.mapping_mode)
        )
        return max(alike, default=len(self.eras) - 1)

    @property
    def names(self) -> Mapping[str, str]:
        """The names of the archive's columns now, by their physical names."""
        return {physical_name(field): str(field["name"]) for field in self.layout.fields}


def identity(stream: Stream, after_timestamp: datetime) -> dict[str, str]:
    """The properties of a new archive that ``stream`` fills, except those of its eras.

    :param after_timestamp: the time of the commit at the offset of the stream
    """
    is_whole = stream.shows_initial_rows or precedes_all(stream.offset)
    return {
        _TABLE_ID: stream.source.table_id,
        _SOURCE: stream.source.name,
        _AFTER: str(stream.offset.version),
        _AFTER_TIMESTAMP: after_timestamp.isoformat(),
        _IS_WHOLE: str(is_whole).lower(),
        STREAM: stream.name,
        STREAM_ID: stream.stream_id,
    }


def reserved(columns: Sequence[str]) -> str | None:
    """The first of the source's ``columns`` that has the name of a column of every archive."""
    taken = set(map(name_key, ARCHIVE_COLUMNS))
    return next((column for column in columns if name_key(column) in taken), None)


def _era(version: int, text: str) -> Era:
    found = json.loads(text)
    begun = datetime.fromisoformat(found["timestamp"])
    return Era(version, begun, found["origin"], Layout.of(found), found["columns"])
