"""Changes that leave columns as they are: each column ends as if all changes had come in order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import Crash, CrashAt
from upsert_lab import PARTIAL, UpsertLab

from airflow_provider_cdc.engine import InvalidRequest, ProtocolPoint
from airflow_provider_cdc.engine.core.upserts.change_rows import Reason

Change = tuple[Any, ...]


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> UpsertLab:
    return UpsertLab.created(spark, tmp_path, partial_changes=True)


def in_order(changes: list[Change]) -> list[Change]:
    """The rows after all changes, applied one by one in the order of their sequence numbers."""
    rows: dict[int, list[Any]] = {}
    for key, name, salary, kind, _, unchanged in sorted(changes, key=lambda each: each[4] or ""):
        if kind == "DELETE":
            rows.pop(key, None)
            continue
        left = {column.lower() for column in unchanged or []}
        row = rows.setdefault(key, [None, None])
        row[0] = row[0] if "name" in left else name
        row[1] = row[1] if "salary" in left else salary
    return sorted(((key, *row) for key, row in rows.items()), key=repr)


@pytest.mark.thorough
def test_unchanged_columns_keep_their_values(lab: UpsertLab) -> None:
    lab.write((1, "a", 10, "UPSERT", "1", None), (2, "b", 20, "UPSERT", "1", []))
    lab.apply()
    lab.write((1, "x", 11, "UPSERT", "2", ["Name"]), (2, "c", None, "UPSERT", "2", ["SALARY"]))
    expected = [(1, "a", 11), (2, "c", 20)]
    assert lab.read() == expected
    lab.apply()

    assert lab.applied() == lab.read() == expected


@pytest.mark.thorough
def test_column_never_written_is_null(lab: UpsertLab) -> None:
    lab.write((1, "x", 10, "UPSERT", None, ["name"]))
    assert lab.read() == [(1, None, 10)]
    lab.apply()
    lab.write((1, None, None, "DELETE", "5", None), (1, "x", 11, "UPSERT", "6", ["name"]))
    lab.apply()

    assert lab.applied() == lab.read() == [(1, None, 11)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "late",
    [
        pytest.param([(1, "late", 5, "UPSERT", "2", None)], id="upsert"),
        pytest.param([(1, "late", 5, "UPSERT", "2", ["salary"])], id="part of a row"),
        pytest.param([(1, None, None, "DELETE", "2", None)], id="delete"),
        pytest.param([(1, "later", 5, "UPSERT", "0", None)], id="older than all"),
    ],
)
def test_late_change_is_compared_with_newer_ones_column_by_column(
    lab: UpsertLab, late: list[Change]
) -> None:
    early = [(1, "a", 10, "UPSERT", "1", None), (1, None, 30, "UPSERT", "3", ["name"])]
    for batch in (early, late):
        lab.write(*batch)
        expected = lab.read()
        lab.apply()
        assert lab.applied() == expected

    assert lab.applied() == in_order(early + late)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_partial_changes_in_any_order_and_batches_match_a_plain_model(
    lab: UpsertLab, seed: int
) -> None:
    chance = random.Random(seed)
    changes: list[Change] = [
        (
            chance.randrange(5),
            f"v{step}",
            step,
            chance.choice(["UPSERT", "UPSERT", "UPSERT", "DELETE"]),
            f"{step:03X}",
            chance.choice([None, ["name"], ["salary"], ["Salary", "NAME"]]),
        )
        for step in range(60)
    ]
    sent, expected = changes + chance.choices(changes, k=20), in_order(changes)
    chance.shuffle(sent)
    lab.send_in_batches(sent, chance, least=5)

    assert lab.applied() == lab.read() == expected


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_partial_changes_with_no_or_equal_numbers_keep_arrival_order(
    lab: UpsertLab, seed: int
) -> None:
    chance = random.Random(seed)
    sent: list[Change] = []
    for step in range(6):
        batch = [
            (
                chance.randrange(4),
                chance.choice([None, f"v{step}.{number}"]),
                chance.choice([None, step * 100 + number]),
                chance.choice(["UPSERT", "UPSERT", "DELETE"]),
                chance.choice([None, None, "5", "6"]),
                chance.choice([None, ["name"], ["salary"]]),
            )
            for number in range(chance.randrange(1, 8))
        ]
        lab.write(*batch)
        sent += batch
        assert lab.read() == in_order(sent)
        if chance.random() < 0.7:
            lab.apply()
            assert lab.applied() == in_order(sent)


@pytest.mark.in_ci("after_statement")
@pytest.mark.parametrize("point", [ProtocolPoint.AFTER_STATEMENT, ProtocolPoint.BEFORE_COMMIT])
def test_partial_changes_of_a_killed_apply_are_applied_once(
    lab: UpsertLab, point: ProtocolPoint
) -> None:
    changes: list[Change] = [
        (1, "a", 10, "UPSERT", "1", None),
        (1, "x", 11, "UPSERT", "3", ["name"]),
    ]
    lab.write(*changes)
    with pytest.raises(Crash):
        lab.apply(lab.new_engine(CrashAt(point)))
    late: Change = (1, "b", 12, "UPSERT", "2", ["salary"])
    lab.write(late)
    assert lab.read() == in_order([*changes, late]) == [(1, "b", 11)]
    while lab.apply() is not None:
        pass

    assert lab.applied() == [(1, "b", 11)]


@pytest.mark.thorough
def test_repeated_partial_changes_write_no_data_file(lab: UpsertLab) -> None:
    changes = [
        (1, "a", 10, "UPSERT", "1", ["name"]),
        (2, "b", 20, "UPSERT", None, ["salary"]),
        (3, None, None, "DELETE", "1", ["name"]),
    ]
    lab.write(*changes)
    lab.apply()
    lab.write(*changes)
    lab.apply()

    last = lab.spark.sql(f"DESCRIBE HISTORY delta.`{lab.table()}`").first()
    assert last is not None
    assert last["operationMetrics"]["numTargetFilesAdded"] == "0"
    assert lab.applied() == [(1, None, 10), (2, "b", None)]


@pytest.mark.thorough
def test_only_value_columns_can_be_left_unchanged(lab: UpsertLab) -> None:
    for names, shown in ((["ID"], '["id"]'), (["nmae"], '["nmae"]'), (["name", None], "null]")):
        with pytest.raises(InvalidRequest, match="not a column of values") as refused:
            lab.write((1, "a", 1, "UPSERT", None, names))
        assert shown in str(refused.value)
    rows = lab.spark.createDataFrame(
        [(1, "UPSERT", "name")], "ID INT, _CHANGE_TYPE STRING, _CHANGE_UNCHANGED STRING"
    )
    with pytest.raises(InvalidRequest, match="expected array<string>"):
        lab.engine.write_changes(lab.table(), rows)
    assert lab.apply() is None
    # A delete ignores the columns that it names as unchanged, and an array may be empty.
    lab.write((1, None, None, "DELETE", None, ["nmae"]))
    text = "SELECT 2 AS ID, 'UPSERT' AS _CHANGE_TYPE, array() AS _CHANGE_UNCHANGED"
    lab.engine.write_changes(lab.table(), lab.spark.sql(text))
    lab.apply()
    assert lab.applied() == [(2, None, None)]


@pytest.mark.thorough
def test_corrected_change_leaves_its_named_columns_unchanged(lab: UpsertLab) -> None:
    lab.write((1, "a", 10, "UPSERT", "1", None))
    rows = lab.frame([(1, "x", 11, "UPSERT", "2", ["nmae"]), (1, "x", 12, "UPSERT", "3", ["Name"])])
    lab.engine.write_changes(lab.table(), rows, on_bad_rows="quarantine")
    assert lab.read() == [(1, "a", 10)]
    lab.apply()

    quarantine = f"delta.`{lab.table()}/_cdc/quarantine`"
    held = lab.spark.sql(f"SELECT _cdc_reason FROM {quarantine} ORDER BY _cdc_order").collect()
    assert [row[0] for row in held] == [Reason.UNCHANGED, Reason.WAITS]
    lab.sql(f"UPDATE {quarantine} SET _CHANGE_UNCHANGED = array('Name') WHERE Salary = 11")
    assert lab.engine.redrive_changes(lab.table()) == 2
    assert lab.read() == [(1, "a", 12)]
    lab.apply()
    assert lab.applied() == [(1, "a", 12)]


def test_partial_changes_are_refused_unless_the_table_was_created_for_them(lab: UpsertLab) -> None:
    lab.engine.create_upsert_table(lab.path("whole"), "ID INT, Name STRING, Salary INT", "ID")
    rows = lab.spark.createDataFrame([(1, "a", 1, "UPSERT", None, ["name"])], PARTIAL)
    with pytest.raises(InvalidRequest, match="without partial_changes"):
        lab.engine.write_changes(lab.path("whole"), rows)
    with pytest.raises(InvalidRequest, match="all its columns are in the primary key"):
        lab.engine.create_upsert_table(lab.path("keys"), "ID INT", "ID", partial_changes=True)
    assert not Path(lab.path("keys")).exists()
