"""Reading a Delta log: its versions, its commits, and the state of the table at one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...core.delta.checkpoints import plain_action
from ...core.delta.log_actions import (
    Commit,
    TableState,
    fingerprint_of,
    high_water_mark_of,
    parse_commit,
    parse_lines,
)
from ...core.errors import NotADeltaTable
from ..files.stores import Files
from ..files.uris import join

_COMMIT = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\..+)?\.(?:parquet|json)$")
_FETCHED_AT_ONCE = 500
_LAST_CHECKPOINT = "_last_checkpoint"
_STATE_ACTIONS = ("metaData", "protocol", "domainMetadata")
_SIDECAR = "sidecar"


class LogIncomplete(Exception):
    """A commit that is needed is no longer in the log.

    :param missing_version: the first version that is missing
    """

    def __init__(self, missing_version: int) -> None:
        self.missing_version = missing_version
        super().__init__(f"commit {missing_version} is not in the log")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint of ``version``: the ``names`` of its files, without sidecars."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """What one listing of a log shows: the newest version, the versions of the commits, and the
    complete checkpoints, newest first.
    """

    latest_version: int
    commits: frozenset[int]
    checkpoints: tuple[Checkpoint, ...]

    def unbroken(self, through: int) -> range:
        """The versions with commits that lead up to ``through`` without a gap."""
        first = through + 1
        while first - 1 in self.commits:
            first -= 1
        return range(first, through + 1)

    def check(self, *, after: int) -> None:
        """Raise :class:`LogIncomplete` if a commit ``after`` (exclusive) is missing."""
        for version in range(after + 1, self.latest_version + 1):
            if version not in self.commits:
                raise LogIncomplete(version)


class DeltaLog:
    """The log of one Delta table; every call reads the store again.

    :param location: the root of the table, a URI or an absolute path
    """

    def __init__(self, location: str, files: Files) -> None:
        self.location = location
        self._files = files
        self._folder = join(location, "_delta_log")

    @property
    def is_begun(self) -> bool:
        """Whether the log holds a commit or a checkpoint. An attempt to create a table that was
        refused or killed leaves a folder without them.
        """
        first = (_commit_name(0), _LAST_CHECKPOINT)
        if any(self._files.exists(join(self._folder, name)) for name in first):
            return True
        return self._files.exists(self._folder) and _listed(self._names()) is not None

    def remove_unfinished(self) -> None:
        """Remove what a killed creation left: Spark treats a log without a commit as a table.
        Nobody can have found a table there.
        """
        self._files.remove_if_empty(self._folder)

    def latest_version(self) -> int:
        """The newest version; raises :class:`NotADeltaTable`."""
        return self.listing().latest_version

    def listing(self, *, since: int = 0) -> Listing:
        """The versions in the log, including checkpoints whose commit is missing.

        :param since: the version to list from; if there is no version from there on, all are listed
        :raises NotADeltaTable: there is no log
        """
        if since > 0:
            # No file has only a number as its name, so this number sorts before all files of its
            # version.
            found = _listed(self._names(after=f"{since:020d}"))
            if found is not None:
                return found
        found = _listed(self._names())
        if found is None:
            raise NotADeltaTable(
                f"table {self.location}",
                "is not a Delta table",
                cause="expected a folder _delta_log with commits, found none",
                fix="name a Delta table, or convert it with CONVERT TO DELTA",
            )
        return found

    def commits(self, *, after: int, through: int) -> Iterator[Commit]:
        """The commits ``after`` (exclusive) to ``through`` (inclusive), oldest first. They are
        fetched in batches when the caller asks for them.

        :raises LogIncomplete: one of them is missing
        """
        for version, content in self._contents(after, through):
            yield parse_commit(version, content)

    def newest_first(self, *, after: int, through: int) -> Iterator[Commit]:
        """The same commits as in :meth:`commits`, newest first. The newest one is fetched by
        itself, because it answers most questions. The others are fetched in batches.

        :raises LogIncomplete: one of them is missing
        """
        newest = max(after, through - 1)
        for begin, end in ((newest, through), (after, newest)):
            for version, content in reversed(list(self._contents(begin, end))):
                yield parse_commit(version, content)

    def commit(self, version: int) -> Commit:
        """One commit; raises :class:`LogIncomplete` if it is missing."""
        return parse_commit(version, self._content(version))

    def has_commit(self, version: int) -> bool:
        """Whether the log holds the commit of a version, by one small request."""
        return self._files.has_file(join(self._folder, _commit_name(version)))

    def fingerprint(self, version: int) -> str:
        """The fingerprint of one commit, without parsing it; raises :class:`LogIncomplete` if it is
        missing.
        """
        return fingerprint_of(self._content(version))

    def actions(self, *, after: int, through: int) -> Iterator[dict[str, Any]]:
        """The actions of the commits ``after`` (exclusive) to ``through`` (inclusive) in the form
        of the log, each under its name. Older commits come first.

        :raises LogIncomplete: one of the commits is missing
        """
        for _, content in self._contents(after, through):
            yield from parse_lines(content)

    def file_times(self, versions: Sequence[int]) -> list[datetime]:
        """The times at which the files of listed commits were written.

        :raises LogIncomplete: one of the files is missing now
        """
        if not versions:
            return []
        try:
            return self._files.modified_below(self._folder, list(map(_commit_name, versions)))
        except FileNotFoundError:
            raise LogIncomplete(versions[0]) from None

    def state_at(self, version: int) -> TableState:
        """Metadata, protocol and row id high-water mark in force at ``version``.

        :raises LogIncomplete: the log no longer reaches back to that version
        """
        listing = _listed(self._names())
        return self._state(version, () if listing is None else listing.checkpoints)

    def newest_state(self) -> TableState:
        """The state at the newest version, with one listing.

        :raises NotADeltaTable: there is no log
        :raises LogIncomplete: a commit is missing that no checkpoint holds
        """
        listing = self.listing()
        return self._state(listing.latest_version, listing.checkpoints)

    def _state(self, version: int, listed: Sequence[Checkpoint]) -> TableState:
        newest = self.commit(version)
        found: dict[str, Any] = {}
        commit = newest
        checkpoints = {item.version: item for item in listed}
        while True:
            _remember(found, commit.metadata, commit.protocol, commit.row_id_high_water_mark)
            if len(found) == len(_STATE_ACTIONS) or commit.version == 0:
                break
            if commit.version in checkpoints:
                self._read_checkpoint(checkpoints[commit.version], found)
                break
            commit = self.commit(commit.version - 1)
        return TableState(
            version,
            newest.timestamp,
            newest.fingerprint,
            found["metaData"],
            found["protocol"],
            found.get("domainMetadata", -1),
        )

    def checkpoint_actions(
        self, checkpoint: Checkpoint, kinds: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """The actions of ``kinds`` in a checkpoint, in the form of :meth:`actions`. If ``kinds``
        has ``add``, the actions of its sidecars are included.

        :raises FileNotFoundError: a file of the checkpoint is missing
        """
        sidecars: list[str] = []
        wanted = [*kinds, _SIDECAR] if "add" in kinds else [*kinds]
        for name in checkpoint.names:
            for row in self._checkpoint_rows(join(self._folder, name), wanted):
                if row.get(_SIDECAR) is not None:
                    sidecars.append(join(self._folder, "_sidecars", row[_SIDECAR]["path"]))
                yield _plain(row, kinds)
        for uri in sidecars:
            for row in self._checkpoint_rows(uri, kinds):
                yield _plain(row, kinds)

    def _contents(self, after: int, through: int) -> Iterator[tuple[int, bytes]]:
        versions = range(after + 1, through + 1)
        for begin in range(0, len(versions), _FETCHED_AT_ONCE):
            chunk = versions[begin : begin + _FETCHED_AT_ONCE]
            contents: Iterable[bytes]
            try:
                contents = self._files.read_below(self._folder, list(map(_commit_name, chunk)))
            except FileNotFoundError:
                # Read them one by one to find out which one is missing.
                contents = map(self._content, chunk)
            yield from zip(chunk, contents, strict=True)

    def _content(self, version: int) -> bytes:
        try:
            return self._files.read(join(self._folder, _commit_name(version)))
        except FileNotFoundError:
            raise LogIncomplete(version) from None

    def _names(self, after: str = "") -> list[str]:
        try:
            return self._files.names(self._folder, after=after)
        except FileNotFoundError:
            return []

    def _read_checkpoint(self, checkpoint: Checkpoint, found: dict[str, Any]) -> None:
        for row in self.checkpoint_actions(checkpoint, _STATE_ACTIONS):
            domain = row.get("domainMetadata")
            _remember(
                found,
                row.get("metaData"),
                row.get("protocol"),
                None if domain is None else high_water_mark_of(domain, None),
            )

    def _checkpoint_rows(self, uri: str, kinds: Sequence[str]) -> list[dict[str, Any]]:
        if uri.endswith(".parquet"):
            return self._files.read_parquet(uri, list(kinds))
        return parse_lines(self._files.read(uri))


def _listed(names: Sequence[str]) -> Listing | None:
    commits = frozenset(int(match[1]) for match in map(_COMMIT.match, names) if match)
    found: dict[tuple[int, str], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.match(name):
            # Without parts, each file is one checkpoint.
            found.setdefault((int(match[1]), match[2] or name), []).append(name)
    newest = max(commits | {version for version, _ in found}, default=None)
    if newest is None:
        return None
    # A checkpoint in parts is complete if no part is missing.
    complete = [
        Checkpoint(version, tuple(parts))
        for (version, form), parts in found.items()
        if not form.isdigit() or len(parts) >= int(form)
    ]
    complete.sort(key=lambda item: item.version, reverse=True)
    return Listing(newest, commits, tuple(complete))


def _plain(row: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
    return {
        name: plain_action(action)
        for name, action in row.items()
        if name in kinds and action is not None
    }


def _commit_name(version: int) -> str:
    return f"{version:020d}.json"


def _remember(
    found: dict[str, Any],
    metadata: Mapping[str, Any] | None,
    protocol: Mapping[str, Any] | None,
    high_water_mark: int | None,
) -> None:
    """Keep the first value that is found: the search goes from new to old."""
    values = (metadata, protocol, high_water_mark)
    for name, value in zip(_STATE_ACTIONS, values, strict=True):
        if value is not None:
            found.setdefault(name, value)
