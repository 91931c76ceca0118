"""Every behaviour that the pages on semantics promise names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("semantics.md", "semantics-changes.md", "semantics-change-streams.md")
TEST_PATH = re.compile(r"`(tests/[\w/]+(?:\.py)?)`")
TEST_NAME = re.compile(r"`(test_\w+)`")


def tables(page: str) -> list[list[list[str]]]:
    """The rows of each table of a page, the one with the names of the columns first."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found: list[list[list[str]]] = []
    is_inside = False
    for line in text.splitlines():
        if line[:1] == "|":
            if not is_inside:
                found.append([])
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        is_inside = line[:1] == "|"
    # The second line of a table is a rule.
    return [[lines[0], *lines[2:]] for lines in found]


@pytest.mark.parametrize("page", PAGES)
def test_semantics_rows_have_a_cell_for_each_column_and_name_their_test(page: str) -> None:
    assert tables(page)
    for names, *rows in tables(page):
        assert names[0] == "Behaviour"
        assert names[-2:] == ["Ours", "Test"]
        for row in rows:
            assert len(row) == len(names), row
            assert row[-2], row
            assert row[-1], row


@pytest.mark.parametrize("page", PAGES)
def test_semantics_pages_name_only_tests_that_exist(page: str) -> None:
    existing = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    cells = [row[-1] for _, *rows in tables(page) for row in rows]
    named = {name for cell in cells for name in TEST_NAME.findall(cell)}
    assert named
    assert named <= existing


def test_pages_name_only_paths_of_tests_that_exist() -> None:
    pages = list((ROOT / "docs").glob("*.md"))
    named = {path for page in pages for path in TEST_PATH.findall(page.read_text("utf-8"))}
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
