"""The parts of history targets, and which of them each part uses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import SparkSession

from ...consumption.attempts import ConsumptionServices
from ...storage.files.stores import Files
from ..streams.creation import Creation
from ..tables.delta_tables import Tables
from .applying import Applying
from .history_verbs import HistoryVerbs
from .plans import Planning
from .reads import HistoryReads
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
) -> HistoryVerbs:
    """The verbs of history targets."""
    targets, planning = HistoryTables(spark, tables, files), Planning(spark, files)
    return HistoryVerbs(
        HistorySources(
            spark,
            targets,
            planning,
            Applying(services, targets, planning, HistoryUpkeep(spark, files, clock), files, clock),
            Staging(targets, creation, services.registry),
            Snapshots(spark, files),
            tables,
            files,
            clock,
        ),
        HistoryReads(spark, targets, files),
    )
