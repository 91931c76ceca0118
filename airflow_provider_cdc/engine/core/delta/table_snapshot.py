"""The state of a table at one version, with its files (protocol, "Action Reconciliation")."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .log_actions import DeletionVector

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A whole table at ``version``.

    The fields hold actions as the log has them. ``domains`` holds the domain metadata. ``files``
    holds the ``add`` of each file in the table, in no order.
    """

    version: int
    protocol: Action
    metadata: Action
    domains: tuple[Action, ...]
    files: tuple[Action, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of all its files."""
        return sum(int(file["size"]) for file in self.files)


class Replay:
    """Replays the actions of a checkpoint, if there is one, then those of each commit after it."""

    def __init__(self) -> None:
        self._protocol: Action = {}
        self._metadata: Action = {}
        self._domains: dict[str, Action] = {}
        self._files: dict[Hashable, Action] = {}

    def take(self, actions: Iterable[Mapping[str, Action | None]]) -> None:
        """Apply ``actions``, each under its name, older ones first."""
        for row in actions:
            for name, action in row.items():
                if action is not None:
                    self._take(name, action)

    def snapshot(self, version: int) -> TableSnapshot:
        """The table after all applied actions, whose newest commit is ``version``."""
        return TableSnapshot(
            version,
            self._protocol,
            self._metadata,
            tuple(self._domains.values()),
            tuple(self._files.values()),
        )

    def _take(self, name: str, action: Action) -> None:
        if name == "add":
            self._files[_logical_file(action)] = action
        elif name == "remove":
            self._files.pop(_logical_file(action), None)
        elif name == "protocol":
            self._protocol = action
        elif name == "metaData":
            self._metadata = action
        elif name == "domainMetadata" and action.get("removed"):
            self._domains.pop(action["domain"], None)
        elif name == "domainMetadata":
            self._domains[action["domain"]] = action


def _logical_file(action: Action) -> Hashable:
    """The key of a data file and its deletion vector.

    A data file with another deletion vector is another logical file (protocol, "Deletion Vectors").
    """
    vector = DeletionVector.of(action.get("deletionVector"))
    unique = None if vector is None else (vector.storage_type, vector.path_or_inline, vector.offset)
    return action["path"], unique
