"""The commits of watched tables that the clock of a change stream has not sealed yet."""

from __future__ import annotations

from ...core.change_streams.clock import SourceCommit, sealable
from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.stamps import stamp_of
from ...core.change_streams.watches import WatchedTable
from ...core.consumption.statement_log import applied_by
from ...core.errors import NotADeltaTable, StreamStale
from ..delta.commit_times import CommitTimes
from ..delta.delta_log import DeltaLog, LogIncomplete
from ..files.stores import Files, each
from ..registry.registry import Registry


class CommitClock:
    """Reads the logs of watched tables, without Spark.

    :param registry: knows which consumptions are open
    """

    def __init__(self, files: Files, registry: Registry) -> None:
        self._files = files
        self._registry = registry

    def tick(self, stream: ChangeStream, now: int) -> ChangeStream:
        """The state of a change stream after a tick that seals what can be sealed.

        :param now: a stamp; every commit that is sealed later gets a later one
        :raises StreamStale: a table is missing or was replaced, or commits were cleaned up
        """
        return stream.ticked(self.new_commits(stream), now)

    def new_commits(self, stream: ChangeStream) -> list[SourceCommit]:
        """The commits of the tables of ``stream`` that can be sealed now, after those that are.

        The statements of a consumption commit one after the other. They are sealed together, when
        the consumption has ended.

        :raises StreamStale: a table is missing or was replaced, or commits were cleaned up
        """
        found = self._listed(stream)
        written = {commit.transaction for commit in found if commit.transaction is not None}
        if not written:
            return found
        streams = self._registry.snapshot().streams()
        open_ones = {each.consumption.consumption_id for each in streams if each.consumption}
        # What has ended by now has all of its commits in a listing that begins now.
        return sealable(self._listed(stream), written - open_ones)

    def _listed(self, stream: ChangeStream) -> list[SourceCommit]:
        tables = {table.source.location: table for table in stream.tables}
        found = each(lambda location: self._of(stream.subject, tables[location]), tables)
        return [commit for commits in found.values() for commit in commits]

    def _of(self, subject: str, table: WatchedTable) -> list[SourceCommit]:
        log, identity = DeltaLog(table.source.location, self._files), table.source.table_id
        try:
            newest = log.listing(since=table.sealed).latest_version
            if newest < table.sealed:
                raise _lost(subject, table, f"its newest version is {newest}")
            commits = list(log.commits(after=table.sealed, through=newest))
            if not commits:
                return []
            ids = (commit.metadata["id"] for commit in commits if commit.metadata is not None)
            other = next((one for one in ids if one != identity), None)
            if other is not None:
                raise _lost(subject, table, f"its id is {other} now, and was {identity}")
            times = CommitTimes(log).times(commits, log.newest_state().configuration)
        except NotADeltaTable:
            raise _lost(subject, table, "it is missing") from None
        except LogIncomplete as error:
            raise _lost(
                subject, table, f"the commit of version {error.missing_version} was cleaned up"
            ) from None
        return [
            SourceCommit(
                identity,
                commit.version,
                stamp_of(times[commit.version]),
                applied_by(commit),
            )
            for commit in commits
        ]


def _lost(subject: str, table: WatchedTable, cause: str) -> StreamStale:
    return StreamStale(
        subject,
        f"cannot follow {table.name}",
        cause=f"it was sealed through version {table.sealed}, and {cause}",
        fix="create the change stream again with or_replace=True; records that were captured"
        " before are no longer readable then, so read them first",
    )
