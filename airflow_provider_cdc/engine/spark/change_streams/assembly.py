"""The parts of change streams, and which of them each part uses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import SparkSession

from ...catalog.stream_catalog import StreamCatalog
from ...storage.files.scratch import Scratch
from ...storage.files.stores import Files
from ...storage.registry.registry import Registry
from ...storage.sources.commit_clock import CommitClock
from ...storage.sources.source_log import SourceLog
from ...storage.state.captures import Captures
from ...storage.state.change_stream_consumers import ChangeStreamConsumers
from ...storage.state.change_streams import ChangeStreams
from ..change_feed.feed_reader import FeedReader
from ..streams.creation import Creation
from ..tables.delta_tables import Tables
from .capture_files import CaptureFiles
from .capturing import Capturing
from .change_stream_verbs import ChangeStreamVerbs
from .creation import ChangeStreamCreation
from .data_records import DataRecords
from .key_buckets import KeyBuckets
from .partition_consumption import PartitionConsumption
from .partition_verbs import PartitionVerbs
from .rebalancing import Rebalancing
from .records import Records


def change_stream_verbs(
    spark: SparkSession,
    state: str,
    files: Files,
    tables: Tables,
    creation: Creation,
    catalog: StreamCatalog,
    registry: Registry,
    sources: SourceLog,
    feeds: FeedReader,
    scratch: Scratch,
    clock: Callable[[], datetime],
) -> tuple[ChangeStreamVerbs, PartitionVerbs]:
    """The verbs of the change streams in the state folder ``state``, and of their consumers."""
    streams = ChangeStreams(state, files)
    captures = Captures(streams, files)
    capture_files = CaptureFiles(spark, captures)
    records = Records(spark, DataRecords(spark, capture_files))
    consumers = ChangeStreamConsumers(streams, files)
    verbs = ChangeStreamVerbs(
        streams,
        ChangeStreamCreation(streams, tables, files, creation, catalog, clock),
        Capturing(
            spark,
            streams,
            capture_files,
            files,
            registry,
            sources,
            feeds,
            scratch,
            catalog.principal,
            clock,
        ),
        Rebalancing(streams, capture_files),
        KeyBuckets(spark, files),
        records,
        CommitClock(files, registry),
        clock,
    )
    consumption = PartitionConsumption(spark, streams, consumers, records, tables)
    return verbs, PartitionVerbs(consumption)
