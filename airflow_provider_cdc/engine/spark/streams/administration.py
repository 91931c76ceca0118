"""The part of the engine that reads no changes: it manages streams and clones tables."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from ...catalog.show_streams import shown, shown_html
from ...catalog.stream_catalog import StreamCatalog
from ...catalog.stream_status import StreamStatus
from ...core.arguments.intervals import interval_of
from ...core.arguments.validation import validated
from ...core.change_feed.tracked_since import ChangeTracking
from ...core.errors import RegistryNotFound, StreamStale
from ...core.model.stream import Stream
from ...core.names import table_name
from ...core.retention.staleness import NEXT_MAINTENANCE
from ...core.retention.table_retention import Maintenance
from ..tables.change_tracking import ChangeTrackings
from ..tables.cloning import Cloning
from ..tables.delta_tables import Tables
from ..views.view_definitions import ViewDefinitions
from .maintenance import Maintainer

log = logging.getLogger(__name__)

_SHOWN = """
    created_on TIMESTAMP, name STRING, catalog STRING, database STRING, table_on STRING,
    owner STRING, readers STRING, consumers STRING, comment STRING, mode STRING,
    append_semantics STRING, column_style STRING, type STRING, base_tables STRING, phase STRING,
    offset BIGINT, offsets STRING, latest_version BIGINT, commits_behind BIGINT,
    bytes_behind BIGINT, rows_waiting BIGINT, has_data BOOLEAN, behind_since TIMESTAMP,
    complete_through TIMESTAMP, max_lag_seconds DOUBLE, stale BOOLEAN, stale_after TIMESTAMP,
    kept_until TIMESTAMP, max_data_extension_seconds DOUBLE, invalid_reason STRING,
    last_consumed_on TIMESTAMP, last_consumer STRING, verified_through BIGINT,
    differing_keys BIGINT
"""


@validated
class StreamAdministration:
    """Manages streams and tables by their names; it reads no rows."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: StreamCatalog,
        tables: Tables,
        cloning: Cloning,
        definitions: ViewDefinitions,
        maintainer: Maintainer,
        tracking: ChangeTrackings,
    ) -> None:
        self._spark = spark
        self._streams = catalog
        self._tables = tables
        self._cloning = cloning
        self._definitions = definitions
        self._maintainer = maintainer
        self._tracking = tracking

    def describe_streams(self) -> list[StreamStatus]:
        """The status of every stream, by name. For a stream on a view, the view is looked up too.

        A state folder without a registry has no streams; then the engine logs a warning.
        """
        statuses = self._streams.describe_streams()
        if not statuses:
            self._warn_of_no_registry()
        return [self._with_view(status) for status in statuses]

    def show_streams(self) -> DataFrame:
        """SHOW STREAMS as a DataFrame: one row for each stream, ordered by name.

        A notebook shows it as a table of the columns that show whether a stream needs attention.
        """
        lines = [shown(status) for status in self.describe_streams()]
        found = self._spark.createDataFrame([tuple(line.values()) for line in lines], _SHOWN)
        # The classes of DataFrames differ between classic sessions and Spark Connect, and each
        # makes further frames of its own class. So only this frame gets the method of notebooks.
        vars(found)["_repr_html_"] = partial(shown_html, lines)
        return found

    def describe_stream(self, name: str) -> StreamStatus:
        """The status of one stream, as in :meth:`describe_streams`; raises ``StreamNotFound``."""
        return self._with_view(self._streams.describe_stream(name))

    def maintain_streams(self, *, ahead: timedelta | str = NEXT_MAINTENANCE) -> Maintenance:
        """Keep the streams of this state folder from going stale; call it regularly.

        If a source would soon remove changes that a stream has not consumed, the source's retention
        is extended, at most to the stream's ``max_data_extension``. When no stream needs the
        extension any more, the retention goes back to what the source's owner has set. Offsets of
        empty streams move over commits without a change. A second call right after the first finds
        nothing to do.

        Snowflake: the retention of a source is extended to the offset of a stream that is not
        consumed, and goes back when the stream is consumed.

        :param ahead: the longest time until the next call; twice the interval is a good value
        """
        found = self._maintainer.run(interval_of(ahead, "ahead"))
        if not found.sources:
            self._warn_of_no_registry()
        return found

    def clone_table(self, source: str, target: str, *, location: str | None = None) -> int:
        """Create a table that holds the rows of another one under the same row ids.

        Snowflake: streams on a table and on its clone return the same row id for a row that existed
        when the table was cloned. Rows that are inserted later into either table may have equal
        ids too.

        The clone is shallow: it shares the files of ``source``, and writes the files of its changes
        into its own folder. So VACUUM of the source can remove files that the clone still needs.
        VACUUM of the clone removes no file of the source. The clone is created completely or not at
        all.

        :param source: a catalog name or the path of a Delta table with row tracking
        :param target: the path of the clone, or its name in the catalog
        :param location: the path of the clone, if ``target`` is a name in the catalog
        :returns: the version of ``source`` that was cloned; the clone's own versions begin with 0
        :raises ChangeTrackingDisabled: row tracking of the source is off
        :raises TableExists: something exists at that path or under that name
        :raises InvalidRequest: the path is not given, is inside the source, or contains the source
        :raises TableNotFound: there is no such source
        :raises NotADeltaTable: the source is not a Delta table
        """
        return self._cloning.clone(source, target, location)

    def enable_change_tracking(
        self, name: str, *, row_tracking: bool = True, change_feed: bool = False
    ) -> ChangeTracking:
        """Record the changes of a table from now on: by row tracking, by Delta's feed, or by both.

        Delta change data feed: only changes after it was switched on are recorded. Row tracking is
        enough for streams and for :meth:`change_feed`. What is on already stays as it is. For new
        tables, set ``spark.databricks.delta.properties.defaults.enableRowTracking`` in the session.

        :param name: a catalog name or the path of a Delta table
        :param row_tracking: switch ``delta.enableRowTracking`` on
        :param change_feed: switch ``delta.enableChangeDataFeed`` on
        :returns: the versions since which each of them is on
        :raises InvalidRequest: neither is wanted, or a column has a name that Delta's feed needs
        :raises TableNotFound: there is no such table
        :raises NotADeltaTable: it is not a Delta table
        """
        return self._tracking.enable(
            table_name(name), row_tracking=row_tracking, change_feed=change_feed
        )

    def undrop_stream(self, name: str) -> Stream:
        """Bring back the stream that was dropped last under a name, at the offset that it had.

        :raises StreamNotFound: no stream was dropped under that name
        :raises StreamExists: another stream has that name now
        :raises InvalidName: a table or a view has that name now
        :raises StreamAccessDenied: the principal does not own it
        """
        self._tables.check_free(name)
        return self._streams.undrop_stream(name)

    def rename_stream(self, name: str, to: str) -> Stream:
        """Give a stream another name; statements use that name from then on.

        :raises StreamNotFound: there is no such stream
        :raises StreamExists: another stream has the new name
        :raises StreamConflict: a consumption of it is open
        :raises InvalidName: the new name is not valid, or a table or a view has it
        :raises StreamAccessDenied: the principal does not own it
        :raises InvalidRequest: it is the stream of an upsert table
        """
        self._tables.check_free(to)
        return self._streams.rename_stream(name, to)

    def clone_stream(self, name: str, of: str, *, comment: str | None = None) -> Stream:
        """Create a stream at the same offset as another one; the two then move independently.

        The clone belongs to the principal. Its readers and consumers are those of the original.

        :raises StreamNotFound: there is no stream ``of``
        :raises StreamExists: a stream has that name
        :raises InvalidName: the name is not valid, or a table or a view has it
        :raises StreamAccessDenied: the principal may not read the original
        """
        self._tables.check_free(name)
        return self._streams.clone_stream(name, of, comment=comment)

    def _warn_of_no_registry(self) -> None:
        """Warn if the state folder has no registry. Each call logs the warning, so it is also in
        the log of an Airflow task, like all messages of the engine.
        """
        try:
            self._streams.check_begun()
        except RegistryNotFound as error:
            log.warning("%s", error)

    def _with_view(self, status: StreamStatus) -> StreamStatus:
        """``status``, stale if the view of the stream has changed. Only Spark knows views."""
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
                rows_waiting=None,
                has_data=None,
                complete_through=None,
                invalid_reason=str(error),
            )
        return status
