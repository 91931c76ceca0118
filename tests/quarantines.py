"""Files of quarantines as their logs show them, for tests without Spark."""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_cdc.engine.core.upserts.change_rows import REASON


def quarantined(*reasons: str | None, removed: int = 0) -> dict[str, Any]:
    """A file of a quarantine with a change for each reason, ``removed`` of which are deleted."""
    texts = sorted(reason[:32] for reason in reasons if reason is not None)
    statistics = {
        "numRecords": len(reasons),
        "minValues": {REASON: texts[0] if texts else None},
        "maxValues": {REASON: f"{texts[-1]}\x7f" if texts else None},
        "nullCount": {REASON: reasons.count(None)},
    }
    file: dict[str, Any] = {"path": "f", "size": 1, "stats": json.dumps(statistics)}
    if removed:
        file["deletionVector"] = {
            "storageType": "i",
            "pathOrInlineDv": "x",
            "sizeInBytes": 1,
            "cardinality": removed,
        }
    return file
