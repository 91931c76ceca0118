"""Positions in the text that Spark read, found again in the text that the user wrote."""

from __future__ import annotations

import pytest

from airflow_provider_cdc.engine.core.sql.error_positions import in_own_text
from airflow_provider_cdc.engine.core.sql.statements import analyse, text_to_run

VIEWS = {"s": "cdc_0123456789abcdef"}


@pytest.mark.parametrize(
    "written",
    [
        "INSERT INTO t SELECT id, nope FROM s",
        "INSERT INTO t SELECT s.id, METADATA$ACTION FROM s\nWHERE nope = 1",
        "MERGE INTO t USING s ON s.id = t.id\n  WHEN MATCHED THEN UPDATE SET v = nope",
        "CREATE TABLE IF NOT EXISTS t USING delta\nAS SELECT *\nFROM s JOIN s x ON nope",
        "FROM s INSERT INTO t SELECT nope",
    ],
)
def test_position_is_that_of_the_word_in_the_users_text(written: str) -> None:
    statement = analyse(written, ["s"])
    read = f"EXPLAIN {text_to_run(statement, VIEWS, created=False)}"
    lines = read.splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if "nope" in text]
    message = f"[X] no `nope`. SQLSTATE: 42703; line {line} pos {lines[line - 1].index('nope')}"

    found = in_own_text(message, read, statement.text)

    own = written.splitlines()
    (wanted,) = [number for number, text in enumerate(own, 1) if "nope" in text]
    assert found.endswith(f"; line {wanted} pos {own[wanted - 1].index('nope')}")


def test_position_of_a_view_is_that_of_the_word_before_the_stream() -> None:
    read, written = "EXPLAIN INSERT INTO t TABLE `cdc_0`", "INSERT INTO t TABLE s"

    found = in_own_text("[X] y (line 1, pos 28)", read, written)

    assert found == "[X] y (line 1 pos 14)"


def test_message_without_a_position_stays_as_it_is() -> None:
    assert in_own_text("[X] line by line", "a", "b") == "[X] line by line"
