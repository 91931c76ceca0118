"""The parts of an engine, and which of them each part uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from pyspark.sql import SparkSession

from ..catalog.change_stream_catalog import ChangeStreamCatalog
from ..catalog.stream_catalog import StreamCatalog
from ..consumption.attempts import ConsumptionServices
from ..consumption.planning import Planner
from ..consumption.resolution import Resolution
from ..consumption.targets import Targets
from ..consumption.work import Works
from ..core.change_sets.read_plan import Strategy, parse_strategy
from ..core.progress import Listener
from ..displays.choice import new_display
from ..storage.files.scratch import Scratch
from ..storage.files.stores import Files
from ..storage.registry.consumptions import Consumptions
from ..storage.registry.registry import Registry
from ..storage.sources.folder_logs import FolderLogs
from ..storage.sources.source_history import SourceHistory
from ..storage.sources.source_log import SourceLog
from ..storage.state.apply_times import ApplyTimes
from ..storage.state.extended_sources import ExtendedSources
from ..storage.state.job_history import JobHistory
from ..storage.state.query_results import Results
from ..storage.state.verifications import Verifications
from .archives.archive_tables import ArchiveTables
from .archives.archived_changes import ArchivedChanges
from .archiving.archiving import Archiving
from .change_feed.feed_reader import OF_ARCHIVES, FeedReader
from .change_sets.file_rows import FileRows
from .change_sets.table_changes_reader import ChangeSetReader
from .change_streams.assembly import change_stream_verbs
from .consumption.statement_writer import SparkWriter
from .consumption.stream_views import SparkChangeSets
from .history.assembly import history_verbs
from .reading.archived_feeds import ArchivedFeeds
from .reading.change_feeds import ChangeFeeds
from .reading.file_sources import FileSources
from .reading.found_sources import Sources
from .reading.stream_reader import StreamReader
from .reading.table_changes import TableChanges
from .session.task_counters import task_counter
from .streams.creation import Creation
from .streams.maintenance import Maintainer
from .streams.rewinding import Readability, Rewinding
from .tables.change_tracking import ChangeTrackings
from .tables.cloning import Cloning
from .tables.delta_tables import Tables
from .tables.pruning import Pruning
from .upserts.applying import Applying
from .upserts.changes_stream import create_changes_stream
from .upserts.dropping import Dropping
from .upserts.metering import Metering
from .upserts.quarantine import Quarantine
from .upserts.reads import Reads
from .upserts.table_definitions import TableDefinitions
from .upserts.upkeep import Upkeep
from .upserts.upsert_streams import UpsertStreams
from .upserts.upsert_tables import UpsertTables
from .verification.upsert_targets import UpsertTargets
from .verification.verifying import Verifying
from .views.view_changes import ViewReader
from .views.view_definitions import ViewDefinitions


class Parts:
    """The parts of one engine; it takes the arguments of the engine."""

    def __init__(
        self,
        spark: SparkSession,
        state: str,
        *,
        storage_options: Mapping[str, str] | None,
        on_progress: Listener | None,
        clock: Callable[[], datetime],
        strategy: Strategy | str | None,
        principal: str | None,
        slot_meter: Callable[[], int] | None,
        show_progress: bool,
    ) -> None:
        self.files = files = Files(storage_options)
        self.catalog = StreamCatalog(
            state, storage_options=storage_options, clock=clock, principal=principal
        )
        self.change_stream_catalog = ChangeStreamCatalog(
            state, storage_options=storage_options, clock=clock
        )
        registry = Registry(state, storage_options=storage_options, clock=clock)
        principal = self.catalog.principal

        self.scratch = Scratch(state, files, clock)
        self.results = Results(state, files, clock)
        self.apply_times = ApplyTimes(state, files, clock)
        self.sources = SourceLog(files, clock)

        self.tables = Tables(spark, files)
        self.tracking = ChangeTrackings(self.tables, files)
        self.cloning = Cloning(spark, self.tables, files, clock)
        self.definitions = ViewDefinitions(spark, self.tables)
        self.maintainer = Maintainer(
            catalog=self.catalog,
            registry=registry,
            sources=self.sources,
            tables=self.tables,
            extended_sources=ExtendedSources(state, files),
            files=files,
            clock=clock,
        )

        wanted = parse_strategy(strategy)
        tables_reader = ChangeSetReader(spark, files, self.scratch, wanted)
        views = ViewReader(spark, tables_reader, self.definitions)
        feeds = FeedReader(spark, files, self.scratch)
        reader = partial(
            StreamReader, spark, tables_reader, views, FileRows(spark, files), feeds, wanted
        )
        self.reader = reader()
        found = Sources(self.tables, self.definitions, SourceHistory(files, clock))
        self.changes = TableChanges(registry, found, self.sources, self.reader, clock, principal)

        self.archive_tables = ArchiveTables(spark, self.tables, files)
        self.archived = ArchivedChanges(spark, registry)
        archived_feeds = ArchivedFeeds(self.archive_tables, self.archived)
        self.feeds = ChangeFeeds(spark, found, self.sources, feeds, archived_feeds, files, clock)

        readability = Readability(self.sources, self.reader, self.scratch)
        self.rewinding = Rewinding(registry, found, readability, principal)
        self.creation = Creation(
            registry=registry,
            tables=self.tables,
            sources=found,
            readability=readability,
            clock=clock,
            principal=principal,
            file_sources=FileSources(spark, state, files, FolderLogs(files, clock), self.sources),
        )

        consumptions = Consumptions(registry, clock)
        listener: Listener = on_progress or (lambda _: None)
        writer = SparkWriter(spark, files)
        targets = Targets(writer, files)
        self.change_sets = SparkChangeSets(spark, self.reader, self.scratch)
        self.consumption = ConsumptionServices(
            registry=registry,
            consumptions=consumptions,
            sources=self.sources,
            change_sets=self.change_sets,
            planner=Planner(self.tables, targets),
            targets=targets,
            resolution=Resolution(consumptions, writer, files, listener),
            listener=listener,
            principal=principal,
            works=Works(new_display, partial(task_counter, spark)) if show_progress else Works(),
        )

        of_archives = SparkChangeSets(spark, reader(OF_ARCHIVES), self.scratch)
        self.archiving = Archiving(
            replace(self.consumption, change_sets=of_archives),
            self.tables,
            self.archive_tables,
            self.archived,
            files,
            self.creation.create,
            self.catalog.drop_stream,
        )

        self.history = history_verbs(
            spark,
            self.consumption,
            files,
            self.tables,
            self.creation,
            clock,
            self.archive_tables,
            self.archived,
            self.feeds,
        )

        self.change_streams, self.partitions = change_stream_verbs(
            spark,
            state,
            files,
            self.tables,
            self.creation,
            self.catalog,
            registry,
            self.sources,
            feeds,
            self.scratch,
            clock,
        )

        self.quarantine = Quarantine(spark, files)
        self.upsert_tables = UpsertTables(spark, self.tables, files)
        self.upsert_streams = UpsertStreams(self.catalog)
        self.verifying = Verifying(
            self.consumption,
            self.change_sets,
            self.reader,
            self.tables,
            self.archive_tables,
            self.archived,
            UpsertTargets(spark, self.tables, self.upsert_tables, self.upsert_streams),
            Verifications(state, files),
            files,
            clock,
        )
        self.upsert_definitions = TableDefinitions(
            spark,
            self.tables,
            self.upsert_tables,
            partial(create_changes_stream, self.creation),
        )
        self.upsert_dropping = Dropping(spark, files)
        self.applying = Applying(
            spark,
            replace(self.consumption, is_for_upserts=True),
            self.upsert_tables,
            self.quarantine,
            Pruning(spark, files),
        )
        self.upsert_reads = Reads(
            spark, self.upsert_tables, self.quarantine, self.sources, self.reader, clock
        )
        self.job_history = JobHistory(state, storage_options)
        self.metering = Metering(self.job_history, clock, slot_meter, principal)
        self.upkeep = Upkeep(spark, files, clock)
