"""What Debezium wrote for a table of PostgreSQL, and what the table held; see ``data/debezium``."""

from __future__ import annotations

import json
from base64 import b64decode
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "data" / "debezium"

# The columns of public.customers in messages without schemas, with decimals as text.
WITHOUT_SCHEMA = (
    "id INT, name STRING, city STRING, balance DECIMAL(12, 2), limit_big DECIMAL(30, 5), born DATE,"
    " seen BIGINT, seen_ms BIGINT, updated TIMESTAMP, active BOOLEAN, score DOUBLE, ratio FLOAT,"
    " small SMALLINT, big BIGINT, doc STRING, raw BINARY, tags ARRAY<STRING>, uid STRING,"
    " info STRING, t BIGINT, level INT"
)
UNTIL_SNAPSHOT, UNTIL_TRUNCATE = 2, 20
"""How many messages about customers had been written by the first two moments of the story."""


@cache
def customer_messages(recording: str = "postgres_schema_on") -> tuple[str | None, ...]:
    """The values of the messages about customers, in order; ``None`` is a tombstone."""
    lines = (_FOLDER / f"{recording}.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return tuple(each["value"] for each in records if each["topic"] == "shop.public.customers")


@cache
def customers(moment: str) -> dict[int, dict[str, Any]]:
    """The rows of customers by id, with the values that Spark has for them.

    :param moment: ``after_snapshot``, ``before_truncate`` or ``end``
    """
    rows = json.loads((_FOLDER / "expected.json").read_text())[moment]
    return {row["id"]: _typed(row) for row in rows}


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    kinds = {
        "balance": Decimal,
        "limit_big": Decimal,
        "born": date.fromisoformat,
        "seen": datetime.fromisoformat,
        "seen_ms": datetime.fromisoformat,
        "updated": _instant,
        "score": float,
        "ratio": float,
        "raw": lambda text: bytearray(b64decode(text)),
        "t": _micros,
    }
    found = {"level": None, **row}
    return {
        name: kinds[name](value) if name in kinds and value is not None else value
        for name, value in found.items()
    }


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _micros(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    return round((int(hours) * 60 + int(minutes)) * 60_000_000 + float(seconds) * 1_000_000)


def shown(values: dict[str, Any]) -> dict[str, Any]:
    """A row of a target in the form of :func:`customers`."""
    found = {"level": None, **values}
    if isinstance(found.get("updated"), datetime):
        found["updated"] = found["updated"].timestamp()
    for name, unit in (("seen", 1_000_000), ("seen_ms", 1_000)):
        if isinstance(found.get(name), int):
            found[name] = _since_1970(found[name], unit)
    if found.get("ratio") is not None:
        found["ratio"] = round(found["ratio"], 6)
    return found


def _since_1970(number: int, unit: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=number * 1_000_000 // unit)
