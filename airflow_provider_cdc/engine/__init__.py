"""The change data capture engine: a library for notebooks and jobs, without Airflow.

Modules that import pyspark or delta-rs are loaded on first use. So workers read streams without
pyspark, and Airflow's scheduler loads its plugins without delta-rs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .catalog.change_stream_status import ChangeStreamStatus
from .core.archives.archive_outcome import ArchiveOutcome
from .core.arguments.points import OffsetOf, Point, Timestamp, Version
from .core.change_feed.feed_options import FeedSchema, FeedSource, OutOfRange
from .core.change_feed.tracked_since import ChangeTracking
from .core.change_sets.read_plan import ReadPlan, Strategy, TablePlan
from .core.change_streams.consumer import ConsumerProgress, PartitionRead
from .core.change_streams.definition import ChangeStream, Int64As, OnDuplicateKey
from .core.change_streams.value_capture import ValueCaptureType
from .core.change_streams.watches import ALL, Columns, Watch
from .core.debezium.envelope import Payload
from .core.errors import (
    CdcError,
    ChangeTrackingDisabled,
    ConsumptionOpen,
    FilesChanged,
    FileUnreadable,
    InvalidName,
    InvalidPartitionToken,
    InvalidRange,
    InvalidRequest,
    InvalidStatement,
    NotADeltaTable,
    OutcomeUnknown,
    StatementFailed,
    StoreUnreachable,
    StreamAccessDenied,
    StreamConflict,
    StreamExists,
    StreamNotFound,
    StreamStale,
    StreamUnreadable,
    StreamUnusable,
    TableExists,
    TableNotFound,
    UnsupportedEnvironment,
    UnsupportedView,
)
from .core.history.options import Absent, Deleted, OnNull, OnTie
from .core.model.outcomes import Outcome, StatementOutcome
from .core.model.provenance import Provenance, SourceVersions, VersionSpan
from .core.model.sources import FileFormat, Folder, Offset
from .core.model.stream import AppendSemantics, ColumnStyle, Stream, StreamMode
from .core.progress import Progress, ProtocolPoint
from .core.retention.table_retention import Maintenance
from .core.upserts.definition import OnBadRows, UpsertTable
from .core.upserts.job_records import Usage
from .core.upserts.write_result import WriteResult
from .core.verification.proof import VerificationState
from .core.verification.verification import DifferenceKind, KeyDifference, Verification

if TYPE_CHECKING:
    from .catalog.change_stream_catalog import ChangeStreamCatalog
    from .catalog.show_streams import shown
    from .catalog.stream_catalog import StreamCatalog
    from .catalog.stream_status import StreamStatus
    from .catalog.upsert_status import UpsertTableStatus, UpsertTableSummary
    from .spark.consumption.transactions import Transaction
    from .spark.engine import Engine
    from .spark.session.local_session import local_session
    from .storage.registry.registry_snapshot import Record
    from .storage.sources.source_log import StreamProbe

_LOADED_LATE = {
    "ChangeStreamCatalog": ".catalog.change_stream_catalog",
    "Engine": ".spark.engine",
    "Record": ".storage.registry.registry_snapshot",
    "StreamCatalog": ".catalog.stream_catalog",
    "StreamProbe": ".storage.sources.source_log",
    "StreamStatus": ".catalog.stream_status",
    "Transaction": ".spark.consumption.transactions",
    "UpsertTableStatus": ".catalog.upsert_status",
    "UpsertTableSummary": ".catalog.upsert_status",
    "local_session": ".spark.session.local_session",
    "shown": ".catalog.show_streams",
}

__all__ = [
    "ALL",
    "Absent",
    "AppendSemantics",
    "ArchiveOutcome",
    "CdcError",
    "ChangeStream",
    "ChangeStreamCatalog",
    "ChangeStreamStatus",
    "ChangeTracking",
    "ChangeTrackingDisabled",
    "ColumnStyle",
    "Columns",
    "ConsumerProgress",
    "ConsumptionOpen",
    "Deleted",
    "DifferenceKind",
    "Engine",
    "FeedSchema",
    "FeedSource",
    "FileFormat",
    "FileUnreadable",
    "FilesChanged",
    "Folder",
    "Int64As",
    "InvalidName",
    "InvalidPartitionToken",
    "InvalidRange",
    "InvalidRequest",
    "InvalidStatement",
    "KeyDifference",
    "Maintenance",
    "NotADeltaTable",
    "Offset",
    "OffsetOf",
    "OnBadRows",
    "OnDuplicateKey",
    "OnNull",
    "OnTie",
    "OutOfRange",
    "Outcome",
    "OutcomeUnknown",
    "PartitionRead",
    "Payload",
    "Point",
    "Progress",
    "ProtocolPoint",
    "Provenance",
    "ReadPlan",
    "Record",
    "SourceVersions",
    "StatementFailed",
    "StatementOutcome",
    "StoreUnreachable",
    "Strategy",
    "Stream",
    "StreamAccessDenied",
    "StreamCatalog",
    "StreamConflict",
    "StreamExists",
    "StreamMode",
    "StreamNotFound",
    "StreamProbe",
    "StreamStale",
    "StreamStatus",
    "StreamUnreadable",
    "StreamUnusable",
    "TableExists",
    "TableNotFound",
    "TablePlan",
    "Timestamp",
    "Transaction",
    "UnsupportedEnvironment",
    "UnsupportedView",
    "UpsertTable",
    "UpsertTableStatus",
    "UpsertTableSummary",
    "Usage",
    "ValueCaptureType",
    "Verification",
    "VerificationState",
    "Version",
    "VersionSpan",
    "Watch",
    "WriteResult",
    "local_session",
    "shown",
]


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATE:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(_LOADED_LATE[name], __name__), name)
