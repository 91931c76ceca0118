"""Schemas of one table at two versions: columns that match, and schemas that read the files."""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_cdc.engine.core.delta.table_schema import (
    Layout,
    gives_ids_anew,
    matching_field,
    matching_path,
    other_columns,
)


def plain(*columns: tuple[str, Any], partitions: tuple[str, ...] = ()) -> Layout:
    fields = [
        {"name": name, "type": kind, "nullable": False, "metadata": {"comment": "x"}}
        for name, kind in columns
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    return Layout.of({"schemaString": schema, "partitionColumns": list(partitions)})


def mapped(*columns: tuple[str, int, str]) -> Layout:
    fields = [
        {
            "name": name,
            "type": "string",
            "nullable": True,
            "metadata": {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": physical,
            },
        }
        for name, number, physical in columns
    ]
    configuration = {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": str(len(columns)),
    }
    schema = json.dumps({"type": "struct", "fields": fields})
    return Layout.of({"schemaString": schema, "configuration": configuration})


def test_layout_keeps_what_readers_need_and_makes_all_nullable() -> None:
    inner = {"name": "x", "type": "integer", "nullable": False, "metadata": {}}
    kind = {
        "type": "array",
        "elementType": {"type": "struct", "fields": [inner]},
        "containsNull": False,
    }
    layout = plain(("a", kind))
    (field,) = layout.fields
    assert (field["nullable"], field["metadata"]) == (True, {})
    assert field["type"]["containsNull"] is True
    assert field["type"]["elementType"]["fields"][0]["nullable"] is True
    assert (layout.is_mapped, layout.max_column_id, layout.column_names) == (False, 0, ("a",))


def test_layout_takes_the_mode_of_column_mapping_in_any_case_as_delta_does() -> None:
    schema = json.dumps({"type": "struct", "fields": []})

    def mode(typed: str | None) -> str:
        configuration = {"delta.columnMapping.mode": typed} if typed else {}
        return Layout.of({"schemaString": schema, "configuration": configuration}).mapping_mode

    assert [mode("ID"), mode("Name"), mode("NONE"), mode(None)] == ["id", "name", "none", "none"]


def test_layout_reads_files_of_an_older_one_that_only_has_fewer_columns() -> None:
    old = plain(("a", "string"))
    assert plain(("a", "string"), ("b", "long")).reads_files_of(old)
    assert not plain(("a", "long")).reads_files_of(old)
    assert not plain(("a", "string"), partitions=("a",)).reads_files_of(old)
    assert not mapped(("a", 1, "a")).reads_files_of(old)


def test_layout_reads_no_files_of_an_older_one_with_a_name_in_another_case() -> None:
    old = plain(("N", "integer"))
    assert not plain(("n", "integer")).reads_files_of(old)
    assert not plain(("n", "short")).reads_files_of(old)
    assert plain(("N", "integer"), ("ß", "long")).reads_files_of(
        plain(("ss", "long"), ("N", "integer"))
    )


def test_matching_field_goes_by_id_and_else_by_name() -> None:
    old = mapped(("a", 1, "p1"), ("b", 2, "p2")).fields
    renamed, anew = mapped(("z", 1, "p1"), ("b", 3, "p3")).fields
    assert matching_field(renamed, old) == old[0]
    assert matching_field(anew, old) is None
    (by_name,) = plain(("B", "string")).fields
    assert matching_field(by_name, old) == old[1]


def test_matching_field_by_name_prefers_the_same_spelling() -> None:
    old = plain(("ß", "string"), ("ss", "string"), ("A", "string"), ("a", "string")).fields
    for field in old:
        assert matching_field(field, old) == field
    assert matching_field(plain(("SS", "string")).fields[0], old) == old[1]
    assert matching_field(plain(("SS", "string")).fields[0], old[:1]) is None


def test_matching_path_without_a_switch_of_column_mapping_is_the_two_ends() -> None:
    first, renamed = mapped(("a", 1, "p1")), mapped(("b", 1, "p1"))
    last = mapped(("c", 1, "p1"))
    assert matching_path([first]) == (first, first)
    assert matching_path([first, renamed, last]) == (first, last)


def test_matching_path_passes_both_sides_of_each_switch_of_column_mapping() -> None:
    first, renamed = mapped(("a", 1, "p1")), mapped(("z", 1, "p1"))
    removed, again = plain(("z", "string")), mapped(("z", 1, "z"))
    assert matching_path([first, renamed, removed]) == (first, renamed, removed, removed)
    whole = matching_path([first, renamed, removed, again])
    assert whole == (first, renamed, removed, removed, again, again)


def test_matching_path_between_equal_ends_passes_each_switch() -> None:
    plainly, first = plain(("v", "string")), mapped(("v", 1, "v"))
    dropped, anew = mapped(("w", 2, "p2")), mapped(("w", 2, "p2"), ("v", 3, "p3"))
    path = matching_path([plainly, first, dropped, anew, plainly])
    assert path == (plainly, plainly, first, anew, plainly, plainly)
    # Column ids begin anew each time column mapping is switched on.
    two, left = mapped(("a", 1, "a"), ("b", 2, "b")), mapped(("a", 2, "b"))
    last, none = mapped(("a", 1, "a")), plain(("a", "string"))
    assert matching_path([two, left, none, last]) == (two, left, none, none, last, last)


def test_matching_path_goes_by_names_after_an_overwrite_with_new_ids() -> None:
    before = mapped(("a", 1, "p1"), ("b", 2, "p2"))
    after = mapped(("a", 1, "p1"), ("b", 3, "p3"), ("c", 4, "p4"))
    path = matching_path((before, after))

    assert (path[0], path[1], path[-2], path[-1]) == (before, before, after, after)
    found = {}
    for field in after.fields:
        wanted: Any = field
        for layout in reversed(path[:-1]):
            wanted = wanted and matching_field(wanted, layout.fields)
        found[field["name"]] = wanted and wanted["name"]
    assert found == {"a": "a", "b": "b", "c": None}
    # The same holds in the other direction, as after a RESTORE.
    assert gives_ids_anew(after, before)


def test_matching_path_goes_by_names_if_an_id_has_two_physical_names() -> None:
    before = mapped(("a", 1, "p1"), ("b", 2, "p2"), ("c", 3, "p3"))
    cloned = mapped(("b", 1, "q1"), ("a", 2, "q2"), ("c", 3, "p3"))

    assert gives_ids_anew(cloned, before)
    assert other_columns((cloned, before)) == frozenset()


def test_column_that_was_dropped_and_added_again_is_not_an_overwrite() -> None:
    first, dropped = mapped(("a", 1, "p1"), ("b", 2, "p2")), mapped(("a", 1, "p1"))
    steps = (first, dropped, mapped(("a", 1, "p1"), ("b", 3, "p3")))

    assert matching_path(steps) == (first, steps[-1])
    assert not gives_ids_anew(first, dropped)
    assert not gives_ids_anew(first, mapped(("b", 1, "p1"), ("a", 2, "p2")))


def test_columns_are_identified_by_their_ids_and_not_their_names() -> None:
    first = mapped(("a", 1, "p1"), ("b", 2, "p2"), ("c", 3, "p3"))
    assert other_columns([first]) == frozenset()
    swapped = mapped(("B", 1, "p1"), ("a", 2, "p2"), ("C", 3, "p3"))
    assert other_columns([first, swapped]) == {"a", "b"}
    assert other_columns([first, swapped, first]) == frozenset()
    anew = mapped(("a", 1, "p1"), ("z", 2, "p2"), ("C", 4, "p4"))
    dropped = mapped(("a", 1, "p1"), ("z", 2, "p2"))
    assert other_columns([first, dropped, anew]) == {"c"}
    # An overwrite of the schema keeps columns of the same type; one of another type is another
    # column.
    assert other_columns([first, anew]) == frozenset()
    assert other_columns([first, mapped(("z", 1, "p1"))]) == frozenset()


def test_columns_are_followed_through_switches_of_column_mapping() -> None:
    plainly, first = plain(("a", "string"), ("b", "string")), mapped(("a", 1, "a"), ("b", 2, "b"))
    anew = mapped(("a", 1, "a"), ("b", 3, "p3"))
    assert other_columns([plainly, first]) == frozenset()
    assert other_columns([plainly, first, mapped(("a", 1, "a")), anew]) == {"b"}
    numbered_again = mapped(("a", 5, "a"), ("b", 6, "b"))
    assert other_columns([first, plainly, numbered_again]) == frozenset()


def test_column_dropped_and_added_between_two_switches_is_another_column() -> None:
    plainly, first = plain(("v", "string")), mapped(("v", 1, "v"))
    without, anew = mapped(("w", 2, "p2")), mapped(("w", 2, "p2"), ("v", 3, "p3"))
    assert other_columns([plainly, first, without, anew, plainly]) == {"v"}
    assert other_columns([plainly, first, plainly]) == frozenset()


def test_column_of_another_type_is_another_column() -> None:
    def struct(*columns: tuple[str, Any], number: int | None = None) -> dict[str, Any]:
        numbers = {} if number is None else {"delta.columnMapping.id": number}
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": numbers}
            for name, kind in columns
        ]
        return {"type": "struct", "fields": fields}

    def array(element: Any) -> dict[str, Any]:
        return {"type": "array", "elementType": element, "containsNull": False}

    def map_of(key: Any, value: Any) -> dict[str, Any]:
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}

    def are_others(then: Any, today: Any) -> bool:
        return bool(other_columns([plain(("a", then)), plain(("a", today))]))

    assert are_others("float", "double")
    assert are_others(struct(("x", "float")), "float")
    assert are_others(struct(("x", "float")), struct(("x", "double")))
    assert are_others(struct(("x", "long")), struct(("x", "long"), ("y", "long")))
    assert are_others(struct(("x", "long")), struct(("y", "long")))
    assert are_others(struct(("x", "long"), number=1), struct(("x", "long"), number=2))
    assert are_others(array("float"), array("double"))
    assert are_others(map_of("float", "long"), map_of("double", "long"))
    assert are_others(map_of("long", "float"), map_of("long", "double"))
    assert are_others(array("long"), map_of("long", "long"))
    for kind in (
        "long",
        struct(("x", array("long"))),
        map_of("long", array(struct(("x", "long")))),
    ):
        assert not are_others(kind, kind)
    assert not are_others(struct(("x", "long")), struct(("x", "long"), number=2))


def test_column_with_another_text_comparison_is_another_column() -> None:
    def texts(metadata: dict[str, Any]) -> Layout:
        field = {"name": "a", "type": "string", "nullable": True, "metadata": metadata}
        schema = json.dumps({"type": "struct", "fields": [field]})
        return Layout.of({"schemaString": schema})

    def of_length(kind: str) -> Layout:
        return texts({"__CHAR_VARCHAR_TYPE_STRING": kind})

    assert other_columns([texts({}), texts({"__COLLATIONS": {"a": "spark.UTF8_LCASE"}})])
    assert other_columns([of_length("char(3)"), of_length("char(5)")])
    assert other_columns([of_length("char(3)"), texts({})])
    # Only writers check the length of a VARCHAR.
    assert not other_columns([of_length("varchar(3)"), of_length("varchar(5)")])
    assert not other_columns([of_length("varchar(3)"), texts({"comment": "x"})])
