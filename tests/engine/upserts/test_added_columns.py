"""Columns added to upsert tables: with changes that wait, after killed applies, and before an apply
begins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from quarantine_lab import BAD, QuarantineLab
from stream_lab import Crash, CrashAt
from upsert_lab import NUMBERED, SALARIES, UpsertLab

from airflow_provider_cdc.engine import (
    InvalidRequest,
    ProtocolPoint,
    StreamConflict,
    TableNotFound,
)
from airflow_provider_cdc.engine.core.progress import Progress

WITH_PHONE = f"{NUMBERED}, Phone STRING"
PHONE = "Phone STRING"


def call(lab: UpsertLab, *rows: tuple[Any, ...]) -> None:
    """Write changes with a phone."""
    lab.engine.write_changes(
        lab.table(), lab.spark.createDataFrame(rows, WITH_PHONE), on_bad_rows="quarantine"
    )


def parts(lab: UpsertLab) -> list[str]:
    """The tables with the columns of the data, in the order in which they get a new one."""
    return [f"{lab.table()}/_cdc/quarantine", lab.changes(), lab.table()]


def versions(lab: UpsertLab) -> list[int]:
    return [
        max(int(file.stem) for file in Path(part, "_delta_log").glob("*.json"))
        for part in parts(lab)
    ]


@pytest.mark.thorough
def test_added_column_is_null_until_a_change_sets_it(lab: QuarantineLab) -> None:
    lab.write((1, "a", 10, "UPSERT", "1"))
    lab.apply()
    lab.write((2, "b", 20, "UPSERT", "1"))

    table = lab.engine.add_columns(lab.table(), "phone_1 STRING, born DATE")
    assert [column.name for column in table.columns][3:] == ["phone_1", "born"]
    assert lab.read() == [(1, "a", 10, None, None), (2, "b", 20, None, None)]

    named = lab.spark.sql(
        "SELECT 1 AS ID, 'a' AS Name, 11 AS Salary, 'UPSERT' AS _CHANGE_TYPE, '555' AS PHONE_1"
    )
    lab.engine.write_changes(lab.table(), named)
    # A change without a sequence number loses to one with a number.
    assert lab.apply_all() == [(1, "a", 10, None, None), (2, "b", 20, None, None)]
    lab.engine.write_changes(lab.table(), named.selectExpr("*", "'2' AS _CHANGE_SEQUENCE_NUMBER"))
    assert lab.apply_all() == [(1, "a", 11, "555", None), (2, "b", 20, None, None)]
    # A writer of whole rows that does not name the new columns sets them to NULL.
    lab.write((1, "a", 12, "UPSERT", "3"))
    assert lab.apply_all() == [(1, "a", 12, None, None), (2, "b", 20, None, None)]


@pytest.mark.thorough
def test_existing_column_is_left_unchanged_when_added_again(lab: QuarantineLab) -> None:
    for _ in range(2):
        lab.engine.add_columns(lab.table(), PHONE)
    before = versions(lab)
    lab.engine.add_columns(lab.table(), "PHONE STRING, salary INT")
    assert versions(lab) == before


@pytest.mark.thorough
@pytest.mark.parametrize("done", [1, 2], ids=["quarantine", "changes"])
def test_killed_add_columns_blocks_no_apply_and_the_next_call_finishes_it(
    lab: QuarantineLab, done: int
) -> None:
    lab.send((1, "a", 10, "UPSERT", "1"), (2, "b", 20, "UPSERT", BAD))
    lab.apply()
    lab.send((3, "c", 30, "UPSERT", "1"))
    for part in parts(lab)[:done]:
        lab.sql(f"ALTER TABLE delta.`{part}` ADD COLUMNS ({PHONE})")

    assert lab.apply_all() == [(1, "a", 10), (3, "c", 30)]
    lab.engine.add_columns(lab.table(), PHONE)
    call(lab, (3, "c", 30, "UPSERT", "2", "555"), (2, "b", 21, "UPSERT", "2", "556"))
    lab.correct(20, "1")
    assert lab.apply_all() == [(1, "a", 10, None), (3, "c", 30, "555")]
    assert lab.engine.redrive_changes(lab.table()) == 2
    assert lab.apply_all() == [(1, "a", 10, None), (2, "b", 21, "556"), (3, "c", 30, "555")]


@pytest.mark.thorough
@pytest.mark.parametrize("held", [False, True], ids=["one statement", "two statements"])
@pytest.mark.parametrize("point", [ProtocolPoint.AFTER_BEGIN, ProtocolPoint.AFTER_STATEMENT])
def test_column_added_after_a_killed_apply_does_not_alter_its_result(
    lab: QuarantineLab, point: ProtocolPoint, held: bool
) -> None:
    lab.send((1, "a", 10, "UPSERT", "1"), (2, "b", 20, "UPSERT", BAD if held else "1"))
    with pytest.raises(Crash):
        lab.apply(lab.new_engine(CrashAt(point)))

    lab.engine.add_columns(lab.table(), PHONE)
    call(lab, (3, "c", 30, "UPSERT", "1", "555"), (2, "b", 21, "UPSERT", "2", "556"))
    waits = [] if held else [(2, "b", 21, "556")]
    assert lab.apply_all() == [(1, "a", 10, None), *waits, (3, "c", 30, "555")]
    assert [row[:2] for row in lab.held()] == ([(2, 20), (2, 21)] if held else [])


@pytest.mark.in_ci("one statement")
@pytest.mark.parametrize("held", [False, True], ids=["one statement", "two statements"])
def test_column_added_just_before_an_apply_begins_is_not_lost(
    lab: QuarantineLab, held: bool
) -> None:
    lab.send((1, "a", 10, "UPSERT", "1"), (2, "b", 20, "UPSERT", BAD if held else "1"))

    def add(progress: Progress) -> None:
        if progress.point is ProtocolPoint.BEFORE_BEGIN:
            lab.engine.add_columns(lab.table(), PHONE)
            call(lab, (3, "c", 30, "UPSERT", "1", "555"))

    with pytest.raises(StreamConflict, match="was altered before its changes could be applied"):
        lab.apply(lab.new_engine(add))
    assert lab.applied() == []
    waits = [] if held else [(2, "b", 20, None)]
    assert lab.apply_all() == [(1, "a", 10, None), *waits, (3, "c", 30, "555")]


@pytest.mark.thorough
def test_quarantined_change_keeps_its_value_in_an_added_column(lab: QuarantineLab) -> None:
    lab.engine.add_columns(lab.table(), PHONE)
    call(lab, (1, "a", 10, "UPSERT", BAD, "555"))
    assert lab.apply_all() == []
    lab.correct(10, "1")
    lab.engine.redrive_changes(lab.table())
    assert lab.apply_all() == [(1, "a", 10, "555")]


@pytest.mark.thorough
def test_partial_change_can_leave_an_added_column_unchanged(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)
    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID", partial_changes=True)
    lab.write((1, "a", 10, "UPSERT", "1", []))
    lab.apply()
    lab.engine.add_columns(lab.table(), PHONE)
    schema = f"{WITH_PHONE}, _CHANGE_UNCHANGED ARRAY<STRING>"
    for row in (
        (1, None, None, "UPSERT", "4", "555", ["Name", "Salary"]),
        # Older than the change of the phone, newer than the changes of the other columns.
        (1, "b", 11, "UPSERT", "3", "554", []),
        (1, "c", None, "UPSERT", "5", None, ["Salary", "phone"]),
    ):
        lab.engine.write_changes(lab.table(), spark.createDataFrame([row], schema))
    expected = [(1, "c", 11, "555")]
    assert lab.read() == expected
    lab.apply()
    assert lab.applied() == expected


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("Phone", "a schema that Spark cannot read"),
        ("Salary BIGINT", "cannot be given a column Salary"),
        (f"{PHONE}, phone STRING", "names a column twice"),
        ("_cdc_phone STRING", "that name is reserved"),
        ("Phones MAP<STRING, STRING>", "cannot be compared"),
        ("Phone VARCHAR(9)", "a column of VARCHAR"),
        ("`Day of birth` DATE", "INVALID_CHARACTERS_IN_COLUMN_NAMES"),
    ],
)
def test_column_that_cannot_be_added_is_refused_and_nothing_is_altered(
    lab: QuarantineLab, schema: str, message: str
) -> None:
    before = versions(lab)
    with pytest.raises(InvalidRequest, match=message):
        lab.engine.add_columns(lab.table(), schema)
    assert versions(lab) == before


def test_column_is_added_only_to_upsert_tables(lab: QuarantineLab) -> None:
    with pytest.raises(TableNotFound):
        lab.engine.add_columns(lab.path("none"), PHONE)
    lab.sql(f"CREATE TABLE delta.`{lab.path('plain')}` (id INT) USING delta")
    with pytest.raises(InvalidRequest, match="is not an upsert table"):
        lab.engine.add_columns(lab.path("plain"), PHONE)
