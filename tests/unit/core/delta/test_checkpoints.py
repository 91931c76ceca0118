"""Actions as checkpoints store them: Parquet's pairs, columns and NULLs."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_cdc.engine.core.delta.checkpoints import plain_action


def test_add_of_a_checkpoint_reads_as_in_a_commit() -> None:
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 2}
    row = {
        "path": "a.parquet",
        "partitionValues": [("p", "1"), ("q", None)],
        "tags": None,
        "stats": '{"numRecords":3}',
        "stats_parsed": {"numRecords": 3},
        "deletionVector": {**vector, "offset": None, "maxRowIndex": None},
        "baseRowId": 0,
    }

    assert plain_action(row) == {
        "path": "a.parquet",
        "partitionValues": {"p": "1", "q": None},
        "stats": '{"numRecords":3}',
        "deletionVector": vector,
        "baseRowId": 0,
    }


def test_metadata_of_a_checkpoint_reads_as_in_a_commit() -> None:
    row = {
        "id": "t",
        "name": None,
        "format": {"provider": "parquet", "options": []},
        "partitionColumns": [],
        "configuration": [("a", "b")],
    }

    assert plain_action(row) == {
        "id": "t",
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
        "configuration": {"a": "b"},
    }


def test_domain_metadata_of_a_checkpoint_reads_as_in_a_commit() -> None:
    row = {"domain": "delta.rowTracking", "configuration": '{"x":1}', "removed": False}

    assert plain_action(row) == row


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, 1),
        ("ä", "ä"),
        (False, False),
        (1.5, 1.5),
        (date(2026, 1, 2), "2026-01-02"),
        ({"inner": 7, "unknown": None}, {"inner": 7}),
    ],
)
def test_bounds_with_an_exact_text_are_kept(value: Any, text: Any) -> None:
    assert bounds_of(value) == {"c": text}


@pytest.mark.parametrize(
    "value",
    [None, float("nan"), float("inf"), Decimal("1.10"), datetime(2026, 1, 2, tzinfo=UTC), b"x"],
)
def test_bounds_without_an_exact_text_are_left_out(value: Any) -> None:
    assert bounds_of(value) == {}


def bounds_of(value: Any) -> dict[str, Any]:
    columns = {"numRecords": 3, "tightBounds": True, "minValues": {"c": value}, "nullCount": None}
    stats = json.loads(plain_action({"path": "a", "stats_parsed": columns})["stats"])
    assert (stats["numRecords"], stats["tightBounds"]) == (3, True)
    assert "nullCount" not in stats
    found: dict[str, Any] = stats["minValues"]
    return found
