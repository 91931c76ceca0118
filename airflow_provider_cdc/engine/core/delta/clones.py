"""Clones of tables that keep the ids of their rows.

A clone has a separate log over the files of its source. Delta's SHALLOW CLONE assigns new row ids.
Here each file keeps its base row id, and the clone keeps the column in which carried rows store
their ids.

Row commit versions are versions of one log, and the clone's log begins at version 0. Versions of
the source would be read as versions of the clone. Then a row that the clone updates can look like a
row that was only carried over. So all rows of a clone count as written by its version 0. Each file
records that. The column in which carried rows store their versions gets a new name, so that no file
of the source has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..errors import ChangeTrackingDisabled, InvalidRequest
from ..retention.table_retention import without_extensions
from .deletion_vectors import VectorFiles
from .log_actions import ROW_VERSION_SETTING, DeletionVector
from .table_features import check_readable
from .table_snapshot import Action, TableSnapshot
from .tracking import ENABLED, is_tracked

_OWN_TIMES = "delta.enableInCommitTimestamps"
# These properties name versions and times of the source's log.
_OF_THE_SOURCE = frozenset(
    {"delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"}
)
_KEPT_OF_A_FILE = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "stats",
    "tags",
    "deletionVector",
    "baseRowId",
    "clusteringProvider",
)


def check_clonable(subject: str, source: TableSnapshot) -> None:
    """Refuse a source whose clone could not keep the ids of its rows.

    :param subject: the source, for messages
    :raises ChangeTrackingDisabled: its rows have no ids
    :raises InvalidRequest: a table feature of the source keeps its log from showing all of it
    """
    untracked = sum(file.get("baseRowId") is None for file in source.files)
    if not is_tracked(source.metadata) or untracked:
        found = f"{untracked} files without row ids" if untracked else "row tracking is off"
        raise ChangeTrackingDisabled(
            subject,
            "cannot be cloned with its row ids",
            cause=f"expected row tracking to be on, {found}",
            fix=f"ALTER TABLE ... SET TBLPROPERTIES ('{ENABLED}' = 'true'), then clone it again",
        )
    check_readable(subject, "cannot be cloned", source.protocol)


def check_apart(subject: str, source: str, target: str) -> None:
    """Refuse a clone inside its source or around it.

    VACUUM of the outer table would delete files of the other.

    :param source: the root of the source, a percent-encoded URI
    :param target: the root of the clone, a percent-encoded URI
    :raises InvalidRequest: one is inside the other
    """
    roots = f"{source.rstrip('/')}/", f"{target.rstrip('/')}/"
    if roots[0].startswith(roots[1]) or roots[1].startswith(roots[0]):
        raise InvalidRequest(
            subject,
            "cannot be in this folder",
            cause=f"expected a folder separate from the source's, found {target} and {source}",
            fix="name another folder",
        )


def cloned_log(
    source: TableSnapshot, name: str, table_id: str, moment: datetime, vectors: VectorFiles
) -> bytes:
    """The content of a clone's first commit, its version 0.

    :param source: the source, with absolute paths in its files
    :param name: the name of the source in the history of the clone
    :param table_id: an id for the clone that no table has
    :param moment: the time of the commit, with a time zone
    :param vectors: takes inline deletion vectors of the source that are too large for Delta to read
    """
    milliseconds = int(moment.timestamp() * 1000)
    actions: list[dict[str, Action]] = [
        {"commitInfo": _commit_info(source, name, milliseconds)},
        {"protocol": source.protocol},
        {"metaData": _metadata(source.metadata, table_id, milliseconds)},
    ]
    actions.extend({"domainMetadata": domain} for domain in source.domains)
    actions.extend({"add": _add(file, vectors)} for file in source.files)
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()


def _commit_info(source: TableSnapshot, name: str, milliseconds: int) -> dict[str, Any]:
    info: dict[str, Any] = {
        "timestamp": milliseconds,
        "operation": "CLONE",
        "operationParameters": {"source": name, "sourceVersion": str(source.version)},
        "isBlindAppend": False,
        "engineInfo": "airflow-provider-cdc",
    }
    if str(_configuration(source.metadata).get(_OWN_TIMES, "false")).lower() == "true":
        info["inCommitTimestamp"] = milliseconds
    return info


def _metadata(source: Action, table_id: str, milliseconds: int) -> dict[str, Any]:
    own = without_extensions(_configuration(source))
    configuration = {name: value for name, value in own.items() if name not in _OF_THE_SOURCE}
    configuration[ROW_VERSION_SETTING] = f"_row-commit-version-col-{table_id}"
    return {
        **source,
        "id": table_id,
        "createdTime": milliseconds,
        "configuration": configuration,
    }


def _configuration(metadata: Action) -> Mapping[str, str]:
    return metadata.get("configuration") or {}


def _add(file: Action, vectors: VectorFiles) -> dict[str, Any]:
    kept = {name: file[name] for name in _KEPT_OF_A_FILE if file.get(name) is not None}
    vector = DeletionVector.of(file.get("deletionVector"))
    if vector is not None:
        kept["deletionVector"] = vectors.readable(vector).as_action()
    return {**kept, "dataChange": True, "defaultRowCommitVersion": 0}
