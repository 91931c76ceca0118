"""Files of many rows and their deletion vectors, committed by another writer than Spark, which
takes minutes for as many rows with the settings of tests.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from oracle import FILES, SourceTable
from pyroaring import BitMap64

from airflow_provider_cdc.engine.core.delta.deletion_vectors import MAGIC, z85_encode
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

Add = dict[str, Any]


def add_rows(table: SourceTable, count: int) -> Add:
    """Add a file of ``count`` rows to a table of ``id`` and ``v``: ``id`` is the position, ``v`` is
    0.
    """
    metadata = SourceLog(FILES).newest_offset(table.location).metadata
    fields = json.loads(metadata["schemaString"])["fields"]
    names = [
        field["metadata"].get("delta.columnMapping.physicalName", field["name"]) for field in fields
    ]
    values = [pa.array(range(count), pa.int64()), pa.nulls(count, pa.int32()).fill_null(0)]
    path = Path(table.location, f"large-{table.version}.parquet")
    pq.write_table(pa.table(values, names=names), path)
    add = {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps({"numRecords": count}),
        "baseRowId": 0,
        "defaultRowCommitVersion": table.version + 1,
    }
    mark = json.dumps({"rowIdHighWaterMark": count - 1})
    domain = {"domain": "delta.rowTracking", "configuration": mark, "removed": False}
    _commit(table, "WRITE", {"add": add}, {"domainMetadata": domain})
    return add


def delete_rows(table: SourceTable, before: Add, rows: range, *, inline: bool = False) -> Add:
    """Delete exactly ``rows`` of the file that ``before`` added."""
    bitmap = BitMap64(rows)
    bitmap.run_optimize()
    content = struct.pack("<I", MAGIC) + bitmap.serialize()
    vector: dict[str, Any] = {"sizeInBytes": len(content), "cardinality": len(rows)}
    if inline:
        vector |= {"storageType": "i", "pathOrInlineDv": z85_encode(content)}
    else:
        path = Path(table.location, f"vectors-{table.version}.bin")
        size, checksum = struct.pack(">i", len(content)), struct.pack(">I", zlib.crc32(content))
        path.write_bytes(b"\1" + size + content + checksum)
        vector |= {"storageType": "p", "pathOrInlineDv": path.as_uri(), "offset": 1}
    add = before | {"deletionVector": vector}
    removed = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}
    kept = {"extendedFileMetadata": True, "partitionValues": {}, "size": add["size"]}
    numbers = {name: add[name] for name in ("stats", "baseRowId", "defaultRowCommitVersion")}
    if "deletionVector" in before:
        kept["deletionVector"] = before["deletionVector"]
    _commit(table, "DELETE", {"remove": removed | kept | numbers}, {"add": add})
    return add


def _commit(table: SourceTable, operation: str, *actions: dict[str, object]) -> None:
    info = {"commitInfo": {"timestamp": 1, "operation": operation, "operationParameters": {}}}
    content = "\n".join(json.dumps(action) for action in (info, *actions))
    log = Path(table.location, "_delta_log", f"{table.version + 1:020d}.json")
    log.write_text(content, encoding="utf-8")
