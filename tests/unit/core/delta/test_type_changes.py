"""Which types hold all values of which other types."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_cdc.engine.core.delta.type_changes import TypeChange, lossy_change

WIDER = {
    "byte": "short integer long float double decimal(3,0) decimal(10,2) string",
    "short": "integer long float double decimal(5,0) string",
    "integer": "long double decimal(10,0) decimal(12,2) string",
    "long": "decimal(19,0) decimal(20,1) string",
    "float": "double string",
    "double": "string",
    "decimal(5,2)": "decimal(5,2) decimal(6,2) decimal(7,4) string",
    "decimal(38,6)": "string",
    "date": "timestamp_ntz string",
    "timestamp_ntz": "string",
    "boolean": "string",
    "void": "integer string variant",
}
LOSSY = {
    "short": "byte",
    "integer": "short float decimal(9,0) decimal(10,1) boolean date timestamp",
    "long": "integer float double decimal(18,0) timestamp",
    "float": "integer decimal(38,18)",
    "double": "float integer long",
    "decimal(5,2)": "decimal(5,3) decimal(6,4) decimal(4,2) decimal(6,1) double integer",
    # Without ANSI mode, a session writes 0 as the text 0E-7.
    "decimal(10,7)": "string",
    "string": "integer date binary boolean variant",
    "binary": "string",
    # The session decides how a moment becomes a text, and a date becomes a moment.
    "timestamp": "date timestamp_ntz string long",
    "timestamp_ntz": "date timestamp",
    "date": "timestamp",
    "variant": "string integer",
}


def column(name: str, kind: Any, number: int | None = None) -> dict[str, Any]:
    numbers = {} if number is None else {"delta.columnMapping.id": number}
    return {"name": name, "type": kind, "nullable": True, "metadata": numbers}


def struct(*columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [*columns]}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def change(now: Any, before: Any) -> TypeChange | None:
    return lossy_change((column("c", now),), (column("c", before),))


@pytest.mark.parametrize("before", WIDER)
def test_wider_types_hold_all_values(before: str) -> None:
    assert [now for now in (before, *WIDER[before].split()) if change(now, before)] == []


@pytest.mark.parametrize("before", LOSSY)
def test_other_types_lose_values(before: str) -> None:
    for now in LOSSY[before].split():
        assert change(now, before) == TypeChange("c", before, now)


def test_nested_types_are_compared_by_their_place() -> None:
    def nested(kind: Any) -> Any:
        return struct(column("l", array(map_of(kind, struct(column("x", kind))))))

    assert change(nested("long"), nested("integer")) is None
    assert change(nested("integer"), nested("long")) == TypeChange(
        "c.l.element.key", "long", "integer"
    )
    one, other = map_of("string", "double"), map_of("string", "long")
    assert change(other, one) == TypeChange("c.value", "double", "long")
    assert change(array("long"), "long") == TypeChange("c", "long", "array")
    assert change(struct(), map_of("long", "long")) == TypeChange("c", "map", "struct")


def test_columns_that_were_added_or_dropped_lose_nothing() -> None:
    then = (column("a", "string", 1), column("b", "string", 2))
    assert lossy_change((column("b", "string", 1), column("c", "long", 3)), then) is None
    assert lossy_change((column("b", "long", 3),), then) is None
    assert lossy_change((column("z", "long", 2),), then) == TypeChange("z", "string", "long")
