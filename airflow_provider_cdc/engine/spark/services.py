"""The services of an engine, whose methods are its own, and which parts each of them uses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import SparkSession

from ..storage.delta.provenances import Provenances
from .archiving.archives import Archives
from .consumption.stream_consumption import StreamConsumption
from .parts import Parts
from .reading.stream_reading import StreamReading
from .streams.administration import StreamAdministration
from .tables.target_provenance import TargetProvenance
from .upserts.upsert_administration import UpsertAdministration
from .upserts.upserting import Upserting
from .verification.target_verification import TargetVerification


class Services:
    """The services of one engine that are made of its ``parts``."""

    def __init__(self, spark: SparkSession, parts: Parts, clock: Callable[[], datetime]) -> None:
        self.administration = StreamAdministration(
            spark,
            parts.catalog,
            parts.tables,
            parts.cloning,
            parts.definitions,
            parts.maintainer,
            parts.tracking,
        )
        self.reading = StreamReading(
            parts.catalog,
            parts.sources,
            parts.reader,
            parts.scratch,
            parts.changes,
            parts.feeds,
        )
        self.consumption = StreamConsumption(
            spark,
            parts.catalog,
            parts.consumption,
            parts.change_sets,
            parts.reader,
            parts.tables,
            parts.results,
        )
        self.archives = Archives(
            parts.archiving, parts.archive_tables, parts.archived, parts.feeds.moment_of
        )
        self.verification = TargetVerification(parts.verifying)
        self.provenance = TargetProvenance(parts.tables, Provenances(parts.files))
        self.upserts = UpsertAdministration(
            parts.catalog.for_upserts(),
            parts.upsert_tables,
            parts.upsert_streams,
            parts.upsert_definitions,
            parts.upsert_dropping,
            parts.quarantine,
            parts.job_history,
            parts.apply_times,
            clock,
        )
        self.upserting = Upserting(
            parts.catalog.for_upserts(),
            parts.upsert_tables,
            parts.upsert_streams,
            parts.quarantine,
            parts.applying,
            parts.upsert_reads,
            parts.metering,
            parts.upkeep,
            parts.files,
        )
