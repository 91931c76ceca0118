"""Reads a whole table from its log: a checkpoint, and the commits after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.delta.log_actions import DataFile
from ...core.delta.table_snapshot import Replay, TableSnapshot
from ..files.stores import Files
from ..files.uris import hadoop_uri
from .delta_log import Checkpoint, DeltaLog
from .range_files import RangeFiles

_KINDS = ("protocol", "metaData", "domainMetadata", "add")


def newest_snapshot(location: str, files: Files) -> TableSnapshot:
    """The newest version of the table at ``location``, with absolute paths to its files and their
    deletion vectors.

    :raises NotADeltaTable: there is no Delta log
    :raises LogIncomplete: commits are missing that no checkpoint holds
    """
    log = DeltaLog(location, files)
    listing = log.listing()
    version = listing.latest_version
    replay, after = _begun(log, listing.checkpoints)
    replay.take(log.actions(after=after, through=version))
    found = replay.snapshot(version)
    source = RangeFiles(location, files)
    return replace(found, files=tuple(_absolute(source, file) for file in found.files))


def _begun(log: DeltaLog, checkpoints: Sequence[Checkpoint]) -> tuple[Replay, int]:
    """A replay of the newest of ``checkpoints`` that can be read, and its version. Without a
    checkpoint the version is -1.
    """
    for checkpoint in checkpoints:
        replay = Replay()
        try:
            replay.take(log.checkpoint_actions(checkpoint, _KINDS))
        except FileNotFoundError:
            # A sidecar is missing, or the checkpoint was cleaned up: use an older one.
            continue
        return replay, checkpoint.version
    return Replay(), -1


def _absolute(source: RangeFiles, action: Mapping[str, Any]) -> dict[str, Any]:
    file = source.absolute(DataFile.of(action))
    found = {**action, "path": hadoop_uri(file.path)}
    if file.deletion_vector is not None:
        found["deletionVector"] = file.deletion_vector.as_action()
    return found
