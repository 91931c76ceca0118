"""Every behaviour that the pages on semantics promise names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("semantics.md", "semantics-changes.md")
TEST_PATH = re.compile(r"`(tests/[\w/]+(?:\.py)?)`")
TEST_NAME = re.compile(r"`(test_\w+)`")


def rows(page: str) -> list[list[str]]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("page", PAGES)
def test_semantics_rows_have_five_cells_and_name_their_test(page: str) -> None:
    for row in rows(page):
        assert len(row) == 5, row
        assert row[3], row
        assert row[4], row


@pytest.mark.parametrize("page", PAGES)
def test_semantics_pages_name_only_tests_that_exist(page: str) -> None:
    existing = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = {name for row in rows(page) for name in TEST_NAME.findall(row[4])}
    assert named
    assert named <= existing


def test_pages_name_only_paths_of_tests_that_exist() -> None:
    pages = list((ROOT / "docs").glob("*.md"))
    named = {path for page in pages for path in TEST_PATH.findall(page.read_text("utf-8"))}
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
