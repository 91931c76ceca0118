"""The log lines of a consumption."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from streams import NOON, new_offset, new_stream

from airflow_provider_cdc.engine.core.change_sets.read_plan import ReadPlan, Strategy
from airflow_provider_cdc.engine.core.consumption_lines import (
    changes_line,
    closing_line,
    metrics_text,
    reading_lines,
    statement_line,
    versions_text,
)
from airflow_provider_cdc.engine.core.figures import extent_text, length_text, rows_text
from airflow_provider_cdc.engine.core.model.consumption import (
    Consumption,
    PlannedStatement,
    StatementKind,
    StreamRange,
    TableRange,
)
from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
)
from airflow_provider_cdc.engine.core.progress import Progress, ProtocolPoint

STREAM = new_stream("changes")
PLAN = ReadPlan(
    Strategy.FILE_DIFFERENCE, 12, 3_200_000, 14, "the change files are 9.1 MB in 14 files"
)
STATEMENTS = tuple(
    PlannedStatement(index, StatementKind.MERGE, "", f"`t{index}`", f"/t{index}", 4)
    for index in range(2)
)
CONSUMPTION = Consumption("c1", "me", (), STATEMENTS, NOON)
APPLIED = StatementOutcome(
    0,
    "`t0`",
    StatementResult.APPLIED,
    9,
    {"numTargetRowsInserted": 13_204, "numTargetRowsUpdated": 1, "numTargetRowsDeleted": 0},
)


def taken(after: int, through: int) -> StreamRange:
    ranges = (TableRange(after, new_offset(through)),)
    return StreamRange(STREAM.stream_id, STREAM.name, ranges)


def test_reading_line_has_versions_commits_bytes_strategy_and_why():
    assert reading_lines(STREAM, taken(7, 21), [PLAN]) == (
        "stream changes: reads versions 8 to 21 of flights (14 commits, 3.2 MB in 12 files) by"
        " file difference: the change files are 9.1 MB in 14 files",
    )


@pytest.mark.parametrize(
    ("strategy", "line"),
    [
        (Strategy.NOTHING, "reads nothing of version 8 of flights (1 commit): so it is"),
        (Strategy.INITIAL_ROWS, "reads the rows of flights at version 8: so it is"),
        (Strategy.COMPARISON, "compares flights at version 8 with the target: so it is"),
    ],
)
def test_reading_line_without_files_has_no_size(strategy, line):
    plan = ReadPlan(strategy, 0, 0, 1, "so it is")

    assert reading_lines(STREAM, taken(7, 8), [plan]) == (f"stream changes: {line}",)


def test_lines_of_an_upsert_table_have_its_name_and_not_its_streams():
    stream = new_stream("upserts_dfaccec0", upsert_table="orders")

    (line,) = reading_lines(stream, taken(0, 1), [PLAN])

    assert line.startswith("changes of upsert table orders: reads version 1 of flights")
    assert changes_line(stream, {"inserted": 1}, 0.25) == (
        "changes of upsert table orders: 1 row inserted, counted in 0.2 s"
    )


def test_statement_line_counts_from_one_and_has_rows_seconds_and_share():
    line = statement_line(CONSUMPTION, STATEMENTS[0], APPLIED, 4.21)

    assert line == (
        "statement 1 of 2 on `t0`: 13,204 rows inserted, 1 updated in 4.2 s, version 9; 50% done"
    )


def test_statement_line_of_a_transaction_has_no_share():
    line = statement_line(
        replace(CONSUMPTION, is_open_ended=True), STATEMENTS[1], replace(APPLIED, index=1), 1
    )

    assert line.startswith("statement 2 on ")
    assert "done" not in line


def test_statement_line_says_that_an_earlier_attempt_applied_it():
    found = replace(APPLIED, result=StatementResult.ALREADY_APPLIED)

    assert statement_line(CONSUMPTION, STATEMENTS[0], found, 1) == (
        "statement 1 of 2 on `t0`: an earlier attempt applied it, version 9; 50% done"
    )


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({"numOutputRows": 1}, "1 row inserted"),
        ({"numUpdatedRows": 2, "numOutputRows": 9}, "2 rows updated"),
        ({"numDeletedRows": 3, "numCopiedRows": 9}, "3 rows deleted"),
        ({"numTargetRowsInserted": 0, "numOutputRows": 9}, "no row changed"),
        ({}, "rows not counted"),
    ],
)
def test_rows_of_a_statement_come_from_deltas_metrics(metrics, text):
    assert metrics_text(metrics) == text


def test_closing_line_has_each_stream_the_statements_and_the_time():
    streams = tuple(StreamOutcome("id", name, 7, 21, "file_difference", {}) for name in ("a", "b"))
    outcome = Outcome("c1", "dag/task", streams, (APPLIED,), 9.84)

    assert closing_line(outcome) == (
        "dag/task: consumed a up to version 21 and b up to version 21 by 1 statement in 9.8 s"
    )
    assert "another attempt applied everything" in closing_line(replace(outcome, streams=()))


def test_versions_of_a_range_are_named_from_its_first_one():
    assert versions_text(7, 21) == "versions 8 to 21"
    assert versions_text(7, 8) == "version 8"
    assert versions_text(7, 7) == "no version after 7"


def test_progress_in_words_counts_statements_from_one():
    progress = Progress(ProtocolPoint.AFTER_STATEMENT, "me", "c1", 0)

    assert str(progress) == "after statement 1 of me (c1)"


def test_figures_are_written_for_people():
    assert extent_text(999, 1) == "999 bytes in 1 file"
    assert extent_text(3_200_000, 1_200) == "3.2 MB in 1,200 files"
    assert rows_text({"inserted": 0, "deleted": 2}) == "2 rows deleted"
    assert length_text(timedelta(days=14, hours=1)) == "2 weeks 1 hour"
    assert length_text(timedelta(minutes=10)) == "10 minutes"
    assert length_text(timedelta(seconds=0.5)) == "0.5 seconds"
    assert length_text(timedelta(0)) == "0 seconds"
