"""Reads which versions of their sources targets hold, from the logs of the targets. Needs no
Spark.
"""

from __future__ import annotations

from ...core.consumption.provenance import provenance_of, with_commits
from ...core.errors import InvalidRange
from ...core.model.provenance import Provenance
from ..files.stores import Files
from .delta_log import DeltaLog, LogIncomplete

_TRIES = 3


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
        self, target: str, location: str, known: Provenance | None, *, at_first: int, later: int
    ) -> Provenance | None:
        """The provenance of a target at its newest version, by the commits since ``known``.

        :param at_first: how many commits are read at most if nothing is known, or if there are more
            than ``later`` commits since; the result says from which version on
        :returns: ``None`` if the log holds no commit
        :raises NotADeltaTable: there is no Delta log
        """
        log = DeltaLog(location, self._files)
        listing = log.listing(since=0 if known is None else known.version)
        latest = listing.latest_version
        if known is not None and known.version <= latest <= known.version + later:
            try:
                found = with_commits(known, log.commits(after=known.version, through=latest))
            except LogIncomplete:
                found = None
            if found is not None:
                return found
            listing = log.listing()
            latest = listing.latest_version
        commits = listing.unbroken(latest)[-at_first:]
        if not commits:
            return None
        return provenance_of(target, log.commits(after=commits.start - 1, through=latest))


def _not_there(target: str, version: int, commits: list[int]) -> InvalidRange:
    held = f"versions {commits[0]} to {commits[-1]}" if commits else "no commit"
    return InvalidRange(
        f"target {target}",
        f"does not show its provenance at version {version}",
        cause=f"its log holds {held}",
        fix="name a version that the log holds, or leave it out for the newest one",
    )
