"""The rules of BigQuery CDC for keys and columns, and the properties that a table keeps."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_provider_cdc.engine.core.delta.columns import Column
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.names import TableName
from airflow_provider_cdc.engine.core.upserts.definition import (
    UpsertTable,
    check_lengths,
    checked_columns,
    checked_properties,
    clustered_by,
    with_properties,
)


def columns(count: int) -> list[Column]:
    return [Column(f"c{number}", "int") for number in range(count)]


def names(count: int) -> list[str]:
    return [column.name for column in columns(count)]


def test_key_of_sixteen_of_two_thousand_columns_is_accepted() -> None:
    assert checked_columns("t", columns(2_000), names(16)) == tuple(names(16))


def test_fields_may_have_the_names_of_types() -> None:
    field = Column("s", "struct<`map`:string,`char(`:string,`a``variant`:int>")
    assert checked_columns("t", [Column("id", "int"), field], ["id"]) == ("id",)


@pytest.mark.parametrize("kind", ["VARCHAR(3)", "char (5)", "ARRAY<Char(5)>"])
def test_column_of_a_text_type_with_a_length_is_refused(kind: str) -> None:
    with pytest.raises(InvalidRequest, match=r"expected STRING, found (VAR)?CHAR\("):
        check_lengths("t", f"id INT, a {kind}")


def test_names_and_comments_may_mention_types_with_a_length() -> None:
    check_lengths("t", "id INT COMMENT 'it''s no CHAR(5)', `char(3)` STRING, varchar STRING")


def test_columns_that_delta_distinguishes_are_two_columns() -> None:
    assert checked_columns("t", [Column("maß", "int"), Column("mass", "int")], ["MASS"]) == (
        "mass",
    )


def test_key_is_spelled_as_its_columns_are() -> None:
    assert checked_columns("t", [Column("Id", "int")], ["ID"]) == ("Id",)


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        (columns(17), names(17), "primary key of 17 columns"),
        (columns(2_001), ["c0"], "has 2001 columns"),
        ([], [], "has 0 columns"),
        (columns(2), [], "primary key of 0 columns"),
        (columns(2), ["c0", "C0"], "primary key of 2 columns"),
        (columns(2), ["id"], "there is no column id"),
        ([Column("a", "int"), Column("A", "int")], ["a"], "names a column twice"),
        ([Column("s", "int"), Column("\u017f", "int")], ["s"], "columns of nearly the same name"),
        ([Column("a", "int"), Column("_change_type", "string")], ["a"], "is reserved"),
        ([Column("a", "int"), Column("_CDC_x", "string")], ["a"], "is reserved"),
        ([Column("a", "array<int>")], ["a"], "cannot be compared as a key"),
        ([Column("a", "double")], ["a"], "cannot be compared as a key"),
        ([Column("a", "int"), Column("m", "map<string,int>")], ["a"], "cannot be compared"),
        ([Column("a", "int"), Column("v", "array<variant>")], ["a"], "cannot be compared"),
        ([Column("a", "string collate UTF8_LCASE")], ["a"], "cannot be compared"),
        ([Column("a", "int"), Column("metadata$Action", "int")], ["a"], "is reserved"),
    ],
)
def test_table_that_breaks_a_rule_is_refused(
    given: list[Column], key: list[str], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        checked_columns("t", given, key)


def test_base_is_clustered_by_the_key_columns_with_statistics() -> None:
    given = [Column("flag", "boolean"), *columns(6), Column("text", "string")]
    key = ["flag", "text", *names(6)]
    assert clustered_by("t", given, key, None) == ("text", "c0", "c1", "c2")
    assert clustered_by("t", given, key, ["C5"]) == ("c5",)
    assert clustered_by("t", given, key, []) == ()
    assert clustered_by("t", given, key, "C5") == ("c5",)
    many = [Column("s", "struct<`a`:int,`b`:int>"), *columns(40)]
    # The state column counts too: in a wide table it comes first.
    assert clustered_by("t", many, ["c24", "c25", "c26"], None) == ("c24",)
    with pytest.raises(InvalidRequest, match="there is no column nothing"):
        clustered_by("t", given, key, ["nothing"])


@pytest.mark.parametrize("staleness", [None, timedelta(minutes=10)])
def test_properties_hold_the_whole_definition_of_a_table(staleness: timedelta | None) -> None:
    table = UpsertTable(
        "t",
        TableName(("t__base",)),
        "/data/t",
        "an-id",
        tuple(columns(3)),
        ("c0", "c2"),
        staleness,
        timedelta(days=3),
        has_partial_changes=staleness is None,
    )
    bare = UpsertTable("t", table.base, table.location, table.table_id, table.columns, ())

    assert with_properties(bare, table.properties) == table
    assert table.values == ("c1",)


def test_table_without_the_properties_is_not_an_upsert_table() -> None:
    bare = UpsertTable("t", TableName(("t",)), "/data/t", "id", tuple(columns(1)), ())
    with pytest.raises(InvalidRequest, match="is not an upsert table"):
        with_properties(bare, {"delta.appendOnly": "true"})


TABLE = UpsertTable("t", TableName("t"), "/t", "i", (Column("id", "int"),), ("id",))


def test_properties_that_would_be_read_back_differently_are_refused() -> None:
    damaged = {"primary_key": ["id"]}, {"has_partial_changes": 2}
    for fields in damaged:
        with pytest.raises(InvalidRequest, match="cannot be stored, nothing was written"):
            checked_properties(replace(TABLE, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("primary_key", "no JSON", "a JSON list of columns"),
        ("primary_key", '{"id": 1}', "a JSON list of columns"),
        ("primary_key", '["id", 5]', "a JSON list of columns"),
        ("max_staleness", "10 minutes", "a length of time in ISO 8601"),
        ("tombstone_horizon", "", "a length of time in ISO 8601"),
    ],
)
def test_damaged_property_is_refused_by_name(name: str, text: str, expected: str) -> None:
    properties = replace(TABLE, max_staleness=timedelta(minutes=10)).properties
    (key,) = (each for each in properties if each.endswith(name))
    with pytest.raises(
        InvalidRequest, match=re.escape(f"{key}: expected {expected}, found '{text}'")
    ):
        with_properties(TABLE, properties | {key: text})
