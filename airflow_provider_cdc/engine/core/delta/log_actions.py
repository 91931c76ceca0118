"""The actions of a Delta log, as far as change sets need them (Delta protocol, "Actions")."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

ROW_TRACKING_DOMAIN = "delta.rowTracking"
# The settings that name the columns of data files in which carried rows keep their row id and
# commit version.
ROW_ID_SETTING = "delta.rowTracking.materializedRowIdColumnName"
ROW_VERSION_SETTING = "delta.rowTracking.materializedRowCommitVersionColumnName"
_PRESERVED = "delta.rowTracking.preserved"
_FILE_ACTIONS = frozenset({"add", "remove", "cdc"})
_MAY_BE_UNKNOWN = ("partitionValues", "size")
_VECTOR_IN_LOG = {
    "storage_type": "storageType",
    "path_or_inline": "pathOrInlineDv",
    "size_bytes": "sizeInBytes",
}


# A range has one object of these two classes for each file. The decoder makes them itself and
# Python's cycle collector skips them, which halves the time.
class DeletionVector(
    msgspec.Struct, frozen=True, gc=False, rename=_VECTOR_IN_LOG, omit_defaults=True
):
    """The deleted rows of a data file, or where they are stored.

    ``storage_type`` is ``u`` (a file named by a UUID below the table), ``p`` (a file named by its
    absolute path) or ``i`` (inline). ``offset`` is the byte position inside the file.
    """

    storage_type: str
    path_or_inline: str
    size_bytes: int
    cardinality: int
    offset: int | None = None

    @classmethod
    def of(cls, action: Mapping[str, Any] | None) -> DeletionVector | None:
        """The deletion vector in the ``deletionVector`` field of an ``add`` or ``remove``."""
        return None if action is None else msgspec.convert(action, cls)

    def as_action(self) -> dict[str, Any]:
        """The deletion vector as the JSON field of an action."""
        return dict(msgspec.to_builtins(self))


class _Statistics(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    num_records: int | None = None


# It skips the bounds of the columns, which are most of the text.
_STATISTICS = msgspec.json.Decoder(_Statistics)


class DataFile(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A logical data file: a Parquet file, and the deletion vector that lists its deleted rows.

    ``path`` is as the log has it: percent-encoded, relative to the table or absolute.
    """

    path: str
    partition_values: dict[str, Any] = {}
    size_bytes: int = msgspec.field(default=0, name="size")
    data_change: bool = True
    stats: str | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    deletion_vector: DeletionVector | None = None

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> DataFile:
        """The file of an ``add`` or ``cdc`` action, or of a ``remove`` with extended metadata."""
        return msgspec.convert(_without_nulls(action), cls)

    @property
    def record_count(self) -> int | None:
        """How many rows the Parquet file holds, including deleted ones. ``None`` if unknown."""
        if not self.stats:
            return None
        try:
            return _STATISTICS.decode(self.stats).num_records
        except msgspec.MsgspecError:
            return None

    @property
    def deleted_row_count(self) -> int:
        """How many rows the deletion vector lists."""
        return 0 if self.deletion_vector is None else self.deletion_vector.cardinality

    @property
    def live_row_count(self) -> int | None:
        """How many rows the file holds that are not deleted. ``None`` if unknown."""
        count = self.record_count
        return None if count is None else count - self.deleted_row_count


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a Delta table.

    ``change_files`` are the files of the change data feed. If there are any, they hold every row
    that the commit updated or deleted, before and after. ``preserves_row_ids`` records whether the
    writer kept the ids of rows that it carried into other files; ``None`` means that it did not.
    ``sets_domains``: the commit sets domain metadata other than that of row tracking, such as the
    clustering columns of a table.
    """

    version: int
    timestamp: datetime
    fingerprint: str
    operation: str
    operation_parameters: Mapping[str, Any]
    operation_metrics: Mapping[str, str]
    user_metadata: str | None
    adds: tuple[DataFile, ...]
    removes: tuple[DataFile, ...]
    metadata: Mapping[str, Any] | None
    protocol: Mapping[str, Any] | None
    row_id_high_water_mark: int | None
    transactions: Mapping[str, int]
    change_files: tuple[DataFile, ...] = ()
    preserves_row_ids: bool | None = None
    sets_domains: bool = False

    @property
    def changes_data(self) -> bool:
        """Whether any file action of this commit is marked as a data change."""
        # This runs several times for each commit. A generator takes twice as long.
        for files in (self.adds, self.removes):
            for file in files:
                if file.data_change:
                    return True
        return False

    @property
    def metrics(self) -> dict[str, int]:
        """The metrics that are whole numbers."""
        found = self.operation_metrics.items()
        return {name: int(value) for name, value in found if str(value).isdigit()}


@dataclass(frozen=True, slots=True)
class TableState:
    """What is in force at one version of a table, except its files."""

    version: int
    timestamp: datetime
    fingerprint: str
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    row_id_high_water_mark: int

    @property
    def table_id(self) -> str:
        """The id that distinguishes a recreated table from the original."""
        return str(self.metadata["id"])

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.get("configuration") or {}


class _Line(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A line of a commit. The decoder skips all other fields, because that is cheapest."""

    add: DataFile | None = None
    remove: DataFile | None = None
    cdc: DataFile | None = None
    meta_data: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None
    txn: dict[str, Any] | None = None
    commit_info: dict[str, Any] | None = None
    domain_metadata: dict[str, Any] | None = None


_OBJECTS = msgspec.json.Decoder(dict[str, Any])
_LINES = msgspec.json.Decoder(_Line)


def parse_lines(content: bytes) -> list[dict[str, Any]]:
    """The JSON objects of ``content``, one in each line that is not empty.

    :raises ValueError: a line is not a JSON object
    """
    try:
        return _OBJECTS.decode_lines(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Python also reads what is not quite JSON: NaN, and half a pair of surrogates.
        lines = [json.loads(line) for line in content.splitlines() if line.strip()]
        return msgspec.convert(lines, list[dict[str, Any]])


def _parsed(content: bytes) -> list[_Line]:
    try:
        return _LINES.decode_lines(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        lines = parse_lines(content)
        for line in lines:
            files = line.keys() & _FILE_ACTIONS
            line |= {
                kind: _without_nulls(line[kind]) for kind in files if isinstance(line[kind], dict)
            }
        return msgspec.convert(lines, list[_Line])


def _without_nulls(action: Mapping[str, Any]) -> dict[str, Any]:
    """The action of a file without the nulls that some writers use for unknown values."""
    return {
        name: value
        for name, value in action.items()
        if value is not None or name not in _MAY_BE_UNKNOWN
    }


def fingerprint_of(content: bytes) -> str:
    """The hash that distinguishes the commit whose file holds ``content`` from any other."""
    return hashlib.sha256(content).hexdigest()


def parse_commit(version: int, content: bytes) -> Commit:
    """The commit whose file holds ``content``.

    :raises ValueError: a line is not JSON, or is not an action of the protocol
    """
    adds: list[DataFile] = []
    removes: list[DataFile] = []
    change_files: list[DataFile] = []
    info: Mapping[str, Any] = {}
    metadata = protocol = high_water_mark = None
    sets_domains = False
    transactions: dict[str, int] = {}
    for line in _parsed(content):
        if line.add is not None:
            adds.append(line.add)
        elif line.remove is not None:
            removes.append(line.remove)
        elif line.cdc is not None:
            change_files.append(line.cdc)
        elif line.meta_data is not None:
            metadata = line.meta_data
        elif line.protocol is not None:
            protocol = line.protocol
        elif line.txn is not None:
            transactions[line.txn["appId"]] = line.txn["version"]
        elif line.commit_info is not None:
            info = line.commit_info
        elif line.domain_metadata is not None:
            high_water_mark = high_water_mark_of(line.domain_metadata, high_water_mark)
            sets_domains = sets_domains or line.domain_metadata["domain"] != ROW_TRACKING_DOMAIN
    return Commit(
        version,
        _commit_time(info),
        fingerprint_of(content),
        info.get("operation") or "",
        info.get("operationParameters") or {},
        info.get("operationMetrics") or {},
        info.get("userMetadata"),
        tuple(adds),
        tuple(removes),
        metadata,
        protocol,
        high_water_mark,
        transactions,
        tuple(change_files),
        _preserves_row_ids(info),
        sets_domains,
    )


def high_water_mark_of(action: Mapping[str, Any], otherwise: int | None) -> int | None:
    """The row-id high-water mark that a ``domainMetadata`` action sets.

    The result is ``otherwise`` if the action is about another domain. It is -1 if the action
    removes the domain. Dropping the feature removes it, and later rows are numbered from 0.
    """
    if action["domain"] != ROW_TRACKING_DOMAIN:
        return otherwise
    if action.get("removed"):
        return -1
    return int(msgspec.json.decode(action["configuration"])["rowIdHighWaterMark"])


def _preserves_row_ids(info: Mapping[str, Any]) -> bool | None:
    tag = (info.get("tags") or {}).get(_PRESERVED)
    return None if tag is None else str(tag).lower() == "true"


def _commit_time(info: Mapping[str, Any]) -> datetime:
    milliseconds = info.get("inCommitTimestamp") or info.get("timestamp") or 0
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
