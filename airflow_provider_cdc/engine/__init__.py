"""The change data capture engine: a library for notebooks and jobs, without Airflow.

Modules that import pyspark or delta-rs are loaded on first use. So workers read streams without
pyspark, and Airflow's scheduler loads its plugins without delta-rs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.errors import (
    CdcError,
    ChangeTrackingDisabled,
    ConsumptionOpen,
    FilesChanged,
    FileUnreadable,
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
    StreamUnreadable,
    StreamUnusable,
    TableExists,
    TableNotFound,
    UnsupportedEnvironment,
    UnsupportedView,
)
from .core.model import AppendSemantics, ColumnStyle, FileFormat, Folder, Offset, Stream, StreamMode
from .core.outcomes import Outcome
from .core.points import OffsetOf, Point, Timestamp, Version
from .core.progress import Progress, ProtocolPoint
from .core.read_plan import ReadPlan, Strategy, TablePlan

if TYPE_CHECKING:
    from .catalog import StreamCatalog
    from .spark.engine import Engine
    from .spark.local_session import local_session
    from .spark.transactions import Transaction
    from .stream_status import StreamStatus, shown

_LOADED_LATE = {
    "Engine": ".spark.engine",
    "StreamCatalog": ".catalog",
    "StreamStatus": ".stream_status",
    "Transaction": ".spark.transactions",
    "local_session": ".spark.local_session",
    "shown": ".stream_status",
}

__all__ = [
    "AppendSemantics",
    "CdcError",
    "ChangeTrackingDisabled",
    "ColumnStyle",
    "ConsumptionOpen",
    "Engine",
    "FileFormat",
    "FileUnreadable",
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
    "StreamUnreadable",
    "StreamUnusable",
    "TableExists",
    "TableNotFound",
    "TablePlan",
    "Timestamp",
    "Transaction",
    "UnsupportedEnvironment",
    "UnsupportedView",
    "Version",
    "local_session",
    "shown",
]


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATE:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(_LOADED_LATE[name], __name__), name)
