"""Headers of CSV files: where they are in a text, and how they match the stream's columns."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from airflow_provider_cdc.engine.core.folders.csv_headers import (
    HeaderStyle,
    column_names,
    header_fault,
    header_of,
)
from airflow_provider_cdc.engine.storage.files.csv_heads import BrokenHead, heads
from airflow_provider_cdc.engine.storage.files.stores import Files

ONE_LINE = HeaderStyle.of({})
LINES = HeaderStyle.of({"multiLine": "true", "comment": "#"})


@pytest.mark.parametrize(
    ("text", "style", "header"),
    [
        ("a,b\n1,2\n", ONE_LINE, "a,b"),
        ("a,b\r\n1,2\r\n", ONE_LINE, "a,b"),
        ("a,b\r1,2\r", ONE_LINE, "a,b"),
        ("\n \t\r\n\na,b\n1,2", ONE_LINE, "a,b"),
        ("#x\n #y\n\na,b\n", HeaderStyle.of({"comment": "#"}), "a,b"),
        ("#x\na,b\n", ONE_LINE, "#x"),
        ("a\nb;1\n2;", HeaderStyle.of({"LINESEP": ";"}), "a\nb"),
        ('"a\nb",c\n1,2\n', LINES, '"a\nb",c'),
        ('"a\nb",c\n1,2\n', ONE_LINE, '"a'),
        (" \na,b\n", LINES, " "),
        ("\n#x\na,b\n", LINES, "a,b"),
        ("'a\nb',c\n", HeaderStyle.of({"multiline": "true", "quote": "'"}), "'a\nb',c"),
        ('"a\nb\n', HeaderStyle.of({"multiline": "true", "quote": ""}), '"a'),
    ],
)
def test_header_is_the_first_line_that_spark_takes(
    text: str, style: HeaderStyle, header: str
) -> None:
    assert header_of(text, style, is_whole=False) == header


@pytest.mark.parametrize("text", ["", "\n\n", "a,b", '"a\nb\nc'])
def test_header_that_may_continue_is_unknown_until_the_file_ends(text: str) -> None:
    assert header_of(text, LINES, is_whole=False) is None
    assert header_of(text, LINES, is_whole=True) is not None


def test_column_names_that_are_empty_or_duplicate_get_their_position() -> None:
    assert column_names(["a", None, "A", "", "b"]) == ("a0", "_c1", "A2", "_c3", "b")


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (["id", "name"], ""),
        (["NAME", "id"], ""),
        (["id"], ""),
        (["x", "name", "id", "y"], ""),
        (["day", "id"], ""),
        (["id", "nmae"], "lacks name and has nmae instead"),
        (["1", "Ada"], "expected the columns id, name, found the header 1, Ada"),
    ],
)
def test_header_is_wrong_if_it_lacks_a_column_and_has_another(
    header: list[str], fault: str
) -> None:
    found = header_fault(header, ["id", "name"], ["day"])
    assert (fault in found) if fault else found == ""


def test_heads_of_files_are_read_with_a_byte_order_mark_or_compressed(tmp_path: Path) -> None:
    header = "ü" * 40_000 + ",b"
    text = f"{header}\n1,2\n"
    contents = {
        "plain.csv": text.encode(),
        "marked.csv": text.encode("utf-8-sig"),
        "a.csv.gz": gzip.compress(text.encode(), mtime=0),
        "a.csv.bz2": bz2.compress(text.encode()),
        "a.csv.zst": b"what only Hadoop opens",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)

    found = heads(Files(), [str(tmp_path / name) for name in contents], ONE_LINE)

    assert found == {str(tmp_path / name): header for name in contents if not name.endswith(".zst")}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("utf-16", "ü,b\n1,2\n".encode("utf-16")),
        ("UTF-16", b"\xfe\xff" + "ü,b\n1,2\n".encode("utf-16-be")),
        ("utf-16", "ü,b\n1,2\n".encode("utf-16-be")),
        ("utf-16le", "ü,b\n1,2\n".encode("utf-16-le")),
        ("iso-8859-1", "ü,b\n1,2\n".encode("iso-8859-1")),
    ],
)
def test_head_is_decoded_as_java_does(tmp_path: Path, name: str, content: bytes) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    style = HeaderStyle.of({"encoding": name})
    assert heads(Files(), [str(file)], style) == {str(file): "ü,b"}


@pytest.mark.parametrize("content", [b"a,b\n", gzip.compress(b"a,b\n" * 9, mtime=0)[:20]])
def test_error_for_the_head_of_a_broken_file_names_the_file(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(content)
    with pytest.raises(BrokenHead) as raised:
        heads(Files(), [str(file)], ONE_LINE)
    assert raised.value.uri == str(file)


def test_head_of_a_missing_file_is_not_a_broken_head(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        heads(Files(), [str(tmp_path / "a.csv")], ONE_LINE)
