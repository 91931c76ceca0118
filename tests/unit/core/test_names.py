"""Names of streams, consumers and tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core import names
from airflow_provider_cdc.engine.core.errors import InvalidName
from airflow_provider_cdc.engine.core.names import (
    TableName,
    consumer_name,
    first_alike,
    loose_key,
    name_key,
    quote,
    stream_key,
    stream_name,
    table_name,
    text_value,
)


@pytest.mark.parametrize(
    "text", ["flights_changes", "_s", "S1", "übung", "航班变更", "बदलाव", "select", "x" * 255]
)
def test_stream_name_of_an_identifier_is_returned_as_it_is(text: str) -> None:
    assert stream_name(text) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "found nothing"),
        ("x`; DROP TABLE y", "found '`'"),
        ("a.b", "found '.'"),
        ("a b", "found ' '"),
        (" a", "found ' '"),
        ("a\n", "found '\\\\n'"),
        ("it's", 'found "\'"'),
        ("a;b", "found ';'"),
        ('a"', "found '\"'"),
        ("a$b", r"found '\$'"),
        ("1a", "found a digit first: 1"),
        ("x" * 256, "found 256 characters"),
        ("a\ud800", r"found '\\ud800'"),
    ],
)
def test_stream_name_that_is_not_an_identifier_is_refused(text: str, found: str) -> None:
    with pytest.raises(InvalidName, match=found):
        stream_name(text)


def test_stream_key_of_two_spellings_is_the_same() -> None:
    assert stream_key("Übung_S") == stream_key("üBUNG_s")
    assert stream_key("a") != stream_key("b")


# What the SQL of Spark and Delta makes of two names: one, two, or one in some places.
ALIKE = {
    ("MAß", "maß"): (True, True),
    ("maß", "mass"): (False, False),
    ("\N{KELVIN SIGN}", "k"): (True, True),
    ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "i\N{COMBINING DOT ABOVE}"): (True, False),
    ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "i"): (False, True),
    ("\N{LATIN SMALL LETTER DOTLESS I}", "i"): (False, True),
    ("\N{LATIN SMALL LETTER LONG S}", "s"): (False, True),
    ("\N{GREEK CAPITAL LETTER SIGMA}", "\N{GREEK SMALL LETTER FINAL SIGMA}"): (False, True),
    ("\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}"): (False, True),
}


@pytest.mark.parametrize(("names", "expected"), ALIKE.items(), ids=map("-".join, ALIKE))
def test_names_are_compared_as_spark_compares_them(
    names: tuple[str, str], expected: tuple[bool, bool]
) -> None:
    one, other = names
    assert (name_key(one) == name_key(other), loose_key(one) == loose_key(other)) == expected


def test_first_alike_finds_the_first_pair_of_similar_names() -> None:
    assert first_alike(["a", "maß", "mass", "b"]) is None
    assert first_alike(["a", "s", "b", "\N{LATIN SMALL LETTER LONG S}"]) == (
        "s",
        "\N{LATIN SMALL LETTER LONG S}",
    )


def test_package_has_no_other_comparison_of_names() -> None:
    package = Path(names.__file__).parents[2]
    found = [file.name for file in package.rglob("*.py") if "casefold" in file.read_text("utf-8")]
    assert found == []


@pytest.mark.parametrize("text", ["dag.task", "a b", "dag.task[3]", "航班", "x" * 250])
def test_consumer_name_of_printable_text_is_returned_as_it_is(text: str) -> None:
    assert consumer_name(text) == text


@pytest.mark.parametrize("text", ["", " ", "a\nb", "a\x00", "a\x1b[0m", "\ud800", "x" * 251])
def test_consumer_name_that_is_empty_unprintable_or_long_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="consumer name"):
        consumer_name(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("flights", ("flights",)),
        ("db.flights", ("db", "flights")),
        ("cat.db.flights", ("cat", "db", "flights")),
        (" db . flights ", ("db", "flights")),
        ("my table", ("my table",)),
        ("`my.table`", ("my.table",)),
        ("`a``b`.c", ("a`b", "c")),
        ("`` ` ``".replace(" ", ""), None),
        ("```a```", ("`a`",)),
        ("db.`a;b'c\"`", ("db", "a;b'c\"")),
        ("data/flights", ("data/flights",)),
        ("delta.flights", ("delta", "flights")),
        ("delta.`relative/t`", ("delta", "relative/t")),
        ("航班", ("航班",)),
    ],
)
def test_table_name_of_dotted_parts_is_a_catalog_name(
    text: str, parts: tuple[str, ...] | None
) -> None:
    if parts is None:
        with pytest.raises(InvalidName):
            table_name(text)
        return
    name = table_name(text)
    assert (name.parts, name.is_path) == (parts, False)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/t", "/data/t"),
        ("/data/a b.c/t`x", "/data/a b.c/t`x"),
        ("file:/data/t", "file:/data/t"),
        ("s3://bucket/t", "s3://bucket/t"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        ("delta.`/data/a b/t.x`", "/data/a b/t.x"),
        ("DELTA.`s3://bucket/t`", "s3://bucket/t"),
    ],
)
def test_table_name_of_an_absolute_path_is_a_path(text: str, path: str) -> None:
    name = table_name(text)
    assert (name.path, name.is_path, name.parts) == (path, True, ())


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "a.", ".a", "a..b", "a.b.c.d", "`a", "a`", "`a`b", "a`b`", "``", "a.``"),
        *("/", "//", "file:/", "s3://", "delta.`/`", "a\nb", "/a\x00b", "`a\tb`", "/a\ud800"),
    ],
)
def test_table_name_of_an_invalid_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="does not name a table"):
        table_name(text)


def test_table_name_sql_quotes_every_part() -> None:
    assert table_name("cat.my db.`x`` ; y`").sql == "`cat`.`my db`.`x`` ; y`"
    assert table_name("/a b/`t").sql == "delta.`/a b/``t`"
    assert quote("a`b") == "`a``b`"


@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1), min_size=1, max_size=3
    )
)
def test_table_name_reads_back_what_sql_writes(parts: list[str]) -> None:
    name = TableName(parts=tuple(parts))
    read = table_name(name.sql)
    assert read == name or read.sql == f"delta.{quote(parts[-1])}"


@pytest.mark.parametrize("text", ["O'Brien", "a\\b", "${env:HOME}/a", "$"])
def test_text_that_sessions_read_differently_is_written_in_bytes(text: str) -> None:
    assert text_value(text) == f"CAST(X'{text.encode().hex()}' AS STRING)"


def test_text_that_all_sessions_read_alike_is_written_as_it_is() -> None:
    assert text_value("größe {a} 1") == "'größe {a} 1'"
