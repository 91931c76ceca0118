"""Every behaviour that the page on semantics promises names a test, and that test exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "semantics.md"
TEST_NAME = re.compile(r"`(test_\w+)`")


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_semantics_every_row_has_five_cells_and_names_where_it_is_shown() -> None:
    for row in rows():
        assert len(row) == 5, row
        assert row[3], row
        assert row[4], row


def test_semantics_every_test_that_is_named_exists() -> None:
    existing = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = {name for row in rows() for name in TEST_NAME.findall(row[4])}
    assert named
    assert named <= existing
