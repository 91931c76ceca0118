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
    InvalidName,
    InvalidRange,
    InvalidRequest,
    InvalidStatement,
    NotADeltaTable,
    OutcomeUnknown,
    StatementFailed,
    StreamConflict,
    StreamExists,
    StreamNotFound,
    StreamStale,
    StreamUnusable,
    TableNotFound,
)
from .core.model import AppendSemantics, ColumnStyle, Offset, Outcome, Stream, StreamMode
from .core.points import OffsetOf, Point, Timestamp, Version
from .core.progress import Progress, ProtocolPoint
from .core.read_plan import ReadPlan, Strategy
from .stream_status import StreamStatus, shown

if TYPE_CHECKING:
    from .spark.engine import Engine

__all__ = [
    "AppendSemantics",
    "CdcError",
    "ChangeTrackingDisabled",
    "ColumnStyle",
    "ConsumptionOpen",
    "Engine",
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
    "StreamCatalog",
    "StreamConflict",
    "StreamExists",
    "StreamMode",
    "StreamNotFound",
    "StreamStale",
    "StreamStatus",
    "StreamUnusable",
    "TableNotFound",
    "Timestamp",
    "Version",
    "shown",
]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        return import_module(".spark.engine", __name__).Engine
    raise AttributeError(f"module {__name__} has no attribute {name}")
