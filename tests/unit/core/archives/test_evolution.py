"""The steps by which an archive's columns follow those of its source."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from streams import NOON

from airflow_provider_cdc.engine.core.archives.definition import Archive, Era
from airflow_provider_cdc.engine.core.archives.evolution import evolution
from airflow_provider_cdc.engine.core.delta.column_steps import Add, Rename, Widen
from airflow_provider_cdc.engine.core.delta.table_schema import FIELD_ID, PHYSICAL_NAME, Layout


def field(name: str, kind: Any = "integer", number: int | None = None) -> dict[str, Any]:
    metadata = {} if number is None else {FIELD_ID: number, PHYSICAL_NAME: f"p{number}"}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def layout(*fields: dict[str, Any], mode: str = "name") -> Layout:
    schema = {"type": "struct", "fields": list(fields)}
    settings = {"delta.columnMapping.mode": mode}
    return Layout.of({"schemaString": json.dumps(schema), "configuration": settings})


def archive(
    source: Layout, *held: dict[str, Any], columns: dict[str, str] | None = None
) -> Archive:
    """An archive whose columns ``held`` keep the columns of ``source`` under the same names."""
    own = layout(*(held or source.fields), mode="none")
    own = layout(*({**each, "metadata": {}} for each in own.fields), mode="none")
    named = columns or {name: name for name in source.column_names}
    era = Era(1, NOON, 0, source, named)
    return Archive("log", "log", "/log", "t", "src", 1, NOON, True, "s", "i", (era,), own)


ONE, TWO = field("a", number=1), field("b", number=2)
BEFORE = layout(ONE, TWO)


@pytest.mark.parametrize(
    ("after", "steps"),
    [
        ((ONE, TWO), []),
        ((ONE,), []),
        ((ONE, TWO, field("c", "string", 3)), [Add(("c",), "string")]),
        ((field("z", number=1), TWO), [Rename("a", "z")]),
        ((field("A", number=1), TWO), []),
        ((ONE, field("b", "long", 2)), [Widen("b", "long")]),
        ((field("z", "long", 1), TWO), [Rename("a", "z"), Widen("z", "long")]),
        # The type of a column became one that does not hold its old values.
        ((ONE, field("b", "date", 2)), [Rename("b", "b_until_9"), Add(("b",), "date")]),
        (
            (field("b", number=1), field("a", number=2)),
            [
                Rename("a", "a_renaming"),
                Rename("b", "b_renaming"),
                Rename("a_renaming", "b"),
                Rename("b_renaming", "a"),
            ],
        ),
    ],
    ids=[
        "same",
        "dropped",
        "added",
        "renamed",
        "case_only",
        "widened",
        "renamed_and_widened",
        "other_type",
        "swapped",
    ],
)
def test_evolution_of_columns_is_the_smallest_change(
    after: tuple[dict[str, Any], ...], steps: list[Any]
) -> None:
    assert evolution(archive(BEFORE), 0, layout(*after), 9) == steps


def test_column_with_the_name_of_a_dropped_one_is_another_column() -> None:
    dropped = Era(5, NOON, 0, layout(ONE), {"a": "a"})
    begun = archive(BEFORE)
    begun = replace(begun, eras=(*begun.eras, dropped))

    steps = evolution(begun, 1, layout(ONE, field("b", number=3)), 9)

    assert steps == [Rename("b", "b_until_9"), Add(("b",), "integer")]


def test_evolution_adds_fields_at_the_end_of_structs() -> None:
    inner = struct(field("x"))
    source = layout(
        field(
            "s", struct(field("l", {"type": "array", "elementType": inner, "containsNull": True}))
        )
    )
    wider = struct(field("x"), field("y", "string"))
    after = layout(
        field(
            "s",
            struct(
                field("l", {"type": "array", "elementType": wider, "containsNull": True}),
                field("m", "date"),
            ),
        )
    )

    assert evolution(archive(source), 0, after, 9) == [
        Add(("s", "l", "element", "y"), "string"),
        Add(("s", "m"), "date"),
    ]


def test_evolution_keeps_a_struct_whose_fields_were_renamed() -> None:
    source, after = layout(field("s", struct(field("x")))), layout(field("s", struct(field("y"))))

    steps = evolution(archive(source), 0, after, 9)

    assert steps[0] == Rename("s", "s_until_9")
    assert isinstance(steps[1], Add)


def test_interrupted_evolution_continues_where_it_was() -> None:
    after = layout(field("z", number=1), TWO, field("c", "string", 3))
    # The column a was renamed, and c was added, before the driver crashed.
    held = (field("z"), field("b"), field("c", "string"))
    begun = archive(BEFORE, *held, columns={"a": "z", "b": "b"})

    assert evolution(begun, 0, after, 9) == []


def test_column_that_is_wider_already_is_not_narrowed() -> None:
    held = archive(BEFORE, field("a", "long"), field("b"))

    assert evolution(held, 0, BEFORE, 9) == []


def test_archive_reads_back_what_it_records() -> None:
    source = {
        "schemaString": json.dumps({"type": "struct", "fields": [ONE, TWO]}),
        "partitionColumns": ["a"],
        "configuration": {"delta.columnMapping.mode": "name", "other": "x"},
    }
    era = Era(12, NOON, 0, Layout.of(source), {"a": "a", "b": "col-1"})
    key, value = era.as_property(source)
    prefix = key.rpartition("schema.")[0]
    names = ("table_id", "source", "stream", "stream_id")
    properties = {f"{prefix}{name}": name for name in names} | {
        f"{prefix}after": "-1",
        f"{prefix}after_timestamp": NOON.isoformat(),
        f"{prefix}is_whole": "true",
        key: value,
    }
    schema = json.dumps({"type": "struct", "fields": []})

    found = Archive.of("n", "n", "/n", {"schemaString": schema, "configuration": properties})

    assert found is not None
    assert found.eras[0].layout.reads_as(era.layout)
    assert (found.eras[0].version, found.eras[0].columns) == (12, era.columns)
    assert (found.after, found.after_timestamp, found.is_whole) == (-1, NOON, True)
    assert found.first_whole_version == 0
    assert Archive.of("n", "n", "/n", {"schemaString": schema}) is None
