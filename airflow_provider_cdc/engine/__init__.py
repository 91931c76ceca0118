"""The change data capture engine: a library for notebooks and jobs, without Airflow.

``Engine`` and ``ChangeSet`` live where pyspark is imported; they are loaded when first asked for,
so that workers can read streams without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .catalog import StreamCatalog
from .core.errors import (
    CdcError,
    ChangeTrackingDisabled,
    ConsumptionOpen,
    FilesChanged,
    InvalidName,
    InvalidRange,
    InvalidRequest,
    InvalidStatement,
    NotADeltaTable,
    OutcomeUnknown,
    StatementFailed,
    StreamAccessDenied,
    StreamConflict,
    StreamExists,
    StreamNotFound,
    StreamStale,
    StreamUnusable,
    TableExists,
    TableNotFound,
    UnsupportedView,
)
from .core.model import AppendSemantics, ColumnStyle, FileFormat, Folder, Offset, Stream, StreamMode
from .core.outcomes import Outcome
from .core.points import OffsetOf, Point, Timestamp, Version
from .core.progress import Progress, ProtocolPoint
from .core.read_plan import ReadPlan, Strategy
from .stream_status import StreamStatus, shown

if TYPE_CHECKING:
    from .spark.engine import Engine
    from .spark.transactions import Transaction

__all__ = [
    "AppendSemantics",
    "CdcError",
    "ChangeTrackingDisabled",
    "ColumnStyle",
    "ConsumptionOpen",
    "Engine",
    "FileFormat",
    "FilesChanged",
    "Folder",
    "InvalidName",
    "InvalidRange",
    "InvalidRequest",
    "InvalidStatement",
    "NotADeltaTable",
    "Offset",
    "OffsetOf",
    "Outcome",
    "OutcomeUnknown",
    "Point",
    "Progress",
    "ProtocolPoint",
    "ReadPlan",
    "StatementFailed",
    "Strategy",
    "Stream",
    "StreamAccessDenied",
    "StreamCatalog",
    "StreamConflict",
    "StreamExists",
    "StreamMode",
    "StreamNotFound",
    "StreamStale",
    "StreamStatus",
    "StreamUnusable",
    "TableExists",
    "TableNotFound",
    "Timestamp",
    "Transaction",
    "UnsupportedView",
    "Version",
    "shown",
]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        return import_module(".spark.engine", __name__).Engine
    if name == "Transaction":
        return import_module(".spark.transactions", __name__).Transaction
    raise AttributeError(f"module {__name__} has no attribute {name}")
