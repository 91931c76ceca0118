"""The part of the engine that reads no change: listing and changing streams, cloning tables."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession

from ..catalog import StreamCatalog
from ..core.arguments import KEPT, Kept, validated
from ..core.errors import RegistryNotFound, StreamStale
from ..core.intervals import interval_of
from ..core.model import Stream
from ..core.retention import Maintenance
from ..storage.registry_snapshot import Record
from ..stream_status import StreamStatus, shown
from .cloning import Cloning
from .maintenance import Maintainer
from .tables import Tables
from .views.definitions import ViewDefinitions

log = logging.getLogger(__name__)

_SHOWN = """
    created_on TIMESTAMP, name STRING, catalog STRING, database STRING, table_on STRING,
    owner STRING, readers STRING, consumers STRING, comment STRING, mode STRING,
    append_semantics STRING, column_style STRING, type STRING, base_tables STRING, phase STRING,
    offset BIGINT, offsets STRING, latest_version BIGINT, commits_behind BIGINT,
    bytes_behind BIGINT, behind_since TIMESTAMP, complete_through TIMESTAMP,
    max_lag_seconds DOUBLE, stale BOOLEAN, stale_after TIMESTAMP, kept_until TIMESTAMP,
    max_data_extension_seconds DOUBLE, invalid_reason STRING, last_consumed_on TIMESTAMP,
    last_consumer STRING
"""


@validated
class StreamAdministration:
    """Streams and tables by their names; what they hold is not read here."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: StreamCatalog,
        tables: Tables,
        cloning: Cloning,
        definitions: ViewDefinitions,
        maintainer: Maintainer,
    ) -> None:
        self._spark = spark
        self._streams = catalog
        self._tables = tables
        self._cloning = cloning
        self._definitions = definitions
        self._maintainer = maintainer

    def show_streams(self) -> list[StreamStatus]:
        """How every stream stands, by name; of a stream on a view the view is looked up as well.

        A state folder without a registry has no streams, and a warning in the log says so.
        """
        statuses = self._streams.statuses()
        if not statuses:
            self._warn_of_no_registry()
        return [self._with_view(status) for status in statuses]

    def streams(self) -> DataFrame:
        """SHOW STREAMS as a DataFrame: a row for each stream, by name."""
        rows = [tuple(shown(status).values()) for status in self.show_streams()]
        return self._spark.createDataFrame(rows, _SHOWN)

    def describe_stream(self, name: str) -> StreamStatus:
        """How one stream stands, as :meth:`show_streams` tells it; raises ``StreamNotFound``."""
        return self._with_view(self._streams.status(name))

    def history(self, name: str) -> list[Record]:
        """Every transition of a stream, oldest first: what it was then, when, and by whom.

        :raises StreamNotFound: there is no such stream
        """
        return self._streams.history(name)

    def maintain(self, *, ahead: timedelta | str = timedelta(days=1)) -> Maintenance:
        """Keep the streams of this state folder from going stale; to be run again and again.

        Where a stream has changes that its source would soon not keep any more, the source's
        retention is extended, at most to the stream's ``max_data_extension``; it goes back to what
        the source's owner has set when no stream needs it (seed 000). Offsets of empty streams move
        over commits without a change. Run again at once, it finds nothing to do.

        :param ahead: how much later it runs again, at the latest
        """
        found = self._maintainer.run(interval_of(ahead, "ahead"))
        if not found.sources:
            self._warn_of_no_registry()
        return found

    def advance(self, name: str) -> Stream:
        """Move a stream's offset to now without any DML; initial rows are left out too.

        :raises StreamNotFound: there is none
        :raises StreamConflict: a consumption of it is open
        :raises StreamAccessDenied: the principal may not
        :raises StreamUnusable: its change set can no longer be read
        :raises InvalidRequest: it is that of an upsert table
        """
        return self._streams.advance(name)

    def clone_table(self, source: str, target: str, *, location: str | None = None) -> int:
        """Create a table that holds the rows of another one under the same row ids.

        Seed 000: streams on a table and on its clone give the rows that were there when it was
        cloned the same row id; rows inserted later into either may have the same ids as well. The
        clone is a shallow one: it shares the files of ``source`` and writes those of its changes
        into its own folder, so that VACUUM of the source takes files from a clone that still needs
        them, and VACUUM of the clone none from the source. It is there whole or not at all.

        :param source: a catalog name or the path of a Delta table that tracks its rows
        :param target: the path of the clone, or its name in the catalog
        :param location: its path, where ``target`` is a name in the catalog
        :returns: the version of ``source`` that was cloned; the clone's own begin with 0
        :raises ChangeTrackingDisabled: row tracking of the source is off
        :raises TableExists: there is something at that path or under that name
        :raises InvalidRequest: the path is missing, or lies within the source or around it
        :raises TableNotFound: there is no such source
        :raises NotADeltaTable: it is not a Delta table
        """
        return self._cloning.clone(source, target, location)

    def drop_stream(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a stream; its source and its targets are not touched.

        :raises StreamNotFound: there is none, unless ``if_exists``
        :raises StreamConflict: a consumption of it is open
        :raises StreamAccessDenied: it belongs to another principal
        :raises InvalidRequest: it is that of an upsert table, which is still there
        """
        self._streams.drop(name, if_exists=if_exists)

    def undrop_stream(self, name: str) -> Stream:
        """Bring back the stream that was dropped last under a name, where it stood.

        :raises StreamNotFound: none was dropped
        :raises StreamExists: there is a stream of that name
        :raises InvalidName: it is the name of a table or a view by now
        :raises StreamAccessDenied: it belongs to another principal
        """
        self._tables.check_free(name)
        return self._streams.undrop(name)

    def alter_stream(
        self,
        name: str,
        *,
        comment: str | Kept | None = KEPT,
        owner: str | Kept = KEPT,
        readers: Collection[str] | Kept | None = KEPT,
        consumers: Collection[str] | Kept | None = KEPT,
        max_data_extension: timedelta | str | Kept = KEPT,
        max_lag: timedelta | str | Kept | None = KEPT,
    ) -> Stream:
        """Change what is said of a stream; what is not given stays.

        :param comment: another comment, or none
        :param owner: the principal that it belongs to from then on: who hands it over may do with
            it what its ``readers`` and ``consumers`` say
        :param readers: the principals who may read it besides its owner; ``None``: everybody
        :param consumers: the principals who may consume it besides its owner; ``None``: its readers
        :param max_data_extension: how long its sources may be made to keep what it has not consumed
        :param max_lag: how old a change may grow before its monitor tells; ``None``: any age
        :raises StreamNotFound: there is none
        :raises StreamConflict: a consumption of it is open
        :raises StreamAccessDenied: it belongs to another principal
        :raises InvalidName: the owner cannot be one
        :raises InvalidRequest: it is that of an upsert table
        """
        return self._streams.alter(
            name,
            comment=comment,
            owner=owner,
            readers=readers,
            consumers=consumers,
            max_data_extension=max_data_extension,
            max_lag=max_lag,
        )

    def rename_stream(self, name: str, to: str) -> Stream:
        """Give a stream another name; statements find it under that name from then on.

        :raises StreamNotFound: there is none
        :raises StreamExists: there is another one of the new name
        :raises StreamConflict: a consumption of it is open
        :raises InvalidName: the new name cannot be one, or is that of a table or a view
        :raises StreamAccessDenied: it belongs to another principal
        :raises InvalidRequest: it is that of an upsert table
        """
        self._tables.check_free(to)
        return self._streams.rename(name, to)

    def clone_stream(self, name: str, of: str, *, comment: str | None = None) -> Stream:
        """Create a stream that stands where another one stands, and goes its own way.

        It belongs to whoever clones; who else may use it is as with the original.

        :raises StreamNotFound: there is no stream ``of``
        :raises StreamExists: there is a stream of that name
        :raises InvalidName: the name cannot be one, or is that of a table or a view
        :raises StreamAccessDenied: the principal may not read the original
        """
        self._tables.check_free(name)
        return self._streams.clone(name, of, comment=comment)

    def _warn_of_no_registry(self) -> None:
        """Say where no stream can be seen because there is no registry. A warning of the log, as
        all that the engine has to say: it comes each time, and lands in the log of a task too.
        """
        try:
            self._streams.check_begun()
        except RegistryNotFound as error:
            log.warning("%s", error)

    def _with_view(self, status: StreamStatus) -> StreamStatus:
        """``status``, and whether the view of the stream is what it was: only Spark knows views."""
        if status.view is None or status.invalid_reason is not None:
            return status
        locations = [base.location for base in status.base_tables]
        try:
            self._definitions.current(status.name, status.view, locations)
        except StreamStale as error:
            return replace(
                status,
                stale=True,
                may_have_data=False,
                complete_through=None,
                invalid_reason=str(error),
            )
        return status
