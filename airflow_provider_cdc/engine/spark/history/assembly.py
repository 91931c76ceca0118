"""The parts of history targets, and which of them each part uses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import SparkSession

from ...consumption.attempts import ConsumptionServices
from ...storage.files.stores import Files
from ..archives.archive_tables import ArchiveTables
from ..archives.archived_changes import ArchivedChanges
from ..reading.change_feeds import ChangeFeeds
from ..streams.creation import Creation
from ..tables.delta_tables import Tables
from ..tables.pruning import Pruning
from .applying import Applying
from .history_verbs import HistoryVerbs
from .plans import Planning
from .reads import HistoryReads
from .rebuilding import Rebuilding
from .snapshots import Snapshots
from .sources import HistorySources
from .staging import Staging
from .target_tables import HistoryTables
from .upkeep import HistoryUpkeep


def history_verbs(
    spark: SparkSession,
    services: ConsumptionServices,
    files: Files,
    tables: Tables,
    creation: Creation,
    clock: Callable[[], datetime],
    archives: ArchiveTables,
    archived: ArchivedChanges,
    feeds: ChangeFeeds,
) -> HistoryVerbs:
    """The verbs of history targets."""
    targets = HistoryTables(spark, tables, files)
    planning = Planning(spark, Pruning(spark, files), files)
    upkeep = HistoryUpkeep(spark, files, clock)
    applying = Applying(services, targets, planning, upkeep, files, clock)
    return HistoryVerbs(
        HistorySources(
            spark,
            targets,
            planning,
            applying,
            Staging(targets, creation, services.registry),
            Snapshots(spark, files),
            files,
            clock,
        ),
        HistoryReads(spark, targets, files),
        Rebuilding(spark, targets, applying, archives, archived, feeds, files),
    )
