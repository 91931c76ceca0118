"""Reads which versions of their sources targets hold, from the logs of the targets. Needs no
Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.consumption.provenance import provenance_of, with_commits
from ...core.errors import InvalidRange
from ...core.model.provenance import Provenance
from ..files.stores import Files
from .delta_log import DeltaLog, LogIncomplete

_TRIES = 3


@dataclass(frozen=True, slots=True)
class ReadProvenance:
    """What was read of a target, and the fingerprint of the newest commit that was read."""

    provenance: Provenance
    fingerprint: str


class Provenances:
    """Reads the log of a target again at every call."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self, target: str, location: str, version: int | None = None) -> Provenance:
        """The provenance of a target at ``version``, or at its newest version. It reads each commit
        that the log still holds, one after the other.

        :param target: its name, for the result and for messages
        :raises NotADeltaTable: there is no Delta log
        :raises InvalidRange: the target has no such version, or its log no longer holds it
        """
        log = DeltaLog(location, self._files)
        for _ in range(_TRIES):
            listing = log.listing()
            wanted = listing.latest_version if version is None else version
            known = listing.unbroken(wanted)
            if not known:
                raise _not_there(target, wanted, sorted(listing.commits))
            try:
                return provenance_of(target, log.commits(after=known.start - 1, through=wanted))
            except LogIncomplete:
                continue  # Delta cleans the log up at the same time
        raise _not_there(target, wanted, sorted(log.listing().commits))

    def newest(
        self,
        target: str,
        location: str,
        known: ReadProvenance | None,
        *,
        at_first: int,
        later: int,
    ) -> ReadProvenance | None:
        """The provenance of a target at its newest version, by the commits since ``known``.

        :param known: is left out if the target is another table now
        :param at_first: how many commits are read at most if nothing is known, or if there are more
            than ``later`` commits since; the result says from which version on
        :returns: ``None`` if the log holds no commit
        :raises NotADeltaTable: there is no Delta log
        """
        log = DeltaLog(location, self._files)
        if known is not None and (found := _continued(log, known, later)) is not None:
            return found
        listing = log.listing()
        latest = listing.latest_version
        commits = listing.unbroken(latest)[-at_first:]
        if not commits:
            return None
        read = provenance_of(target, log.commits(after=commits.start - 1, through=latest))
        return ReadProvenance(read, log.fingerprint(latest))


def _continued(log: DeltaLog, known: ReadProvenance, most: int) -> ReadProvenance | None:
    """``known`` with the commits since; ``None``: that is not possible."""
    version = known.provenance.version
    latest = log.listing(since=version).latest_version
    if not version <= latest <= version + most:
        return None
    try:
        if log.fingerprint(version) != known.fingerprint:
            return None
        found = with_commits(known.provenance, log.commits(after=version, through=latest))
        return None if found is None else ReadProvenance(found, log.fingerprint(latest))
    except LogIncomplete:
        return None


def _not_there(target: str, version: int, commits: list[int]) -> InvalidRange:
    held = f"versions {commits[0]} to {commits[-1]}" if commits else "no commit"
    return InvalidRange(
        f"target {target}",
        f"does not show its provenance at version {version}",
        cause=f"its log holds {held}",
        fix="name a version that the log holds, or leave it out for the newest one",
    )
