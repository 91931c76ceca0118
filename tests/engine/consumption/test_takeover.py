"""Consumptions that crashed or meet another consumer: retried, taken over, refused."""

from __future__ import annotations

import pytest
from scenes import (
    FIRST,
    LOG,
    SUMS,
    crash,
)
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    ProtocolPoint,
    StatementFailed,
)


@pytest.mark.in_ci(
    "DELETE FROM {log} WHERE id = 77",
    "DELETE FROM {log} WHERE id IN (SELECT id + 77 FROM s)",
    "INSERT INTO {log} SELECT id, v, 'z' FROM s WHERE id = 77",
    "INSERT OVERWRITE {other} SELECT id, v, 'z' FROM s WHERE id = 77",
)
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {log} WHERE id = 77",
        "DELETE FROM {log} WHERE id IN (SELECT id + 77 FROM s)",
        "UPDATE {log} SET v = 'z' WHERE id = 77",
        "MERGE INTO {log} t USING s ON t.id = s.id + 77 WHEN MATCHED THEN DELETE",
        "INSERT INTO {log} SELECT id, v, 'z' FROM s WHERE id = 77",
        "INSERT OVERWRITE {other} SELECT id, v, 'z' FROM s WHERE id = 77",
    ],
)
def test_statement_that_changes_nothing_is_confirmed_as_applied(
    three: StreamLab, statement: str
) -> None:
    outcome = three.consume(statement, SUMS)

    assert [each.result.value for each in outcome.statements] == ["applied", "applied"]
    assert three.rows("log") == [(0, "kept", "x")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("columns", "clause", "properties"),
    [
        (
            "n BIGINT GENERATED ALWAYS AS IDENTITY, id INT, v STRING,"
            " twice INT GENERATED ALWAYS AS (id * 2)",
            "",
            "",
        ),
        (
            "id INT NOT NULL, v STRING NOT NULL, note STRING DEFAULT 'd'",
            "",
            "'delta.feature.allowColumnDefaults' = 'supported'",
        ),
        ("id INT, v STRING", "PARTITIONED BY (id)", ""),
        ("id INT, v STRING", "", "'delta.appendOnly' = 'true'"),
        ("id INT, `odd, v` STRING", "", "'delta.columnMapping.mode' = 'name'"),
    ],
    ids=["identity and generated", "not null and default", "partitioned", "append only", "mapped"],
)
def test_target_of_any_kind_can_be_fenced_and_undone(
    lab: StreamLab, columns: str, clause: str, properties: str
) -> None:
    value = "`odd, v`" if "odd" in columns else "v"
    lab.make("odd", columns, clause=clause, properties=properties)
    insert = f"INSERT INTO {{odd}} (id, {value}) SELECT id, v FROM s"
    crash(lab, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, insert)

    lab.consume(LOG, insert, consumer="second")

    assert lab.rows("log") == FIRST
    read = f"SELECT id, {value} FROM {{odd}} ORDER BY id"
    assert [tuple(row) for row in lab.spark.sql(lab.text(read)).collect()] == [
        (1, "10"),
        (2, "20"),
    ]
    lab.sql("UPDATE {src} SET v = '11' WHERE id = 1")
    with pytest.raises(StatementFailed):
        lab.consume(insert, "INSERT INTO {log} SELECT raise_error('no'), '', '' FROM s")
    assert lab.spark.sql(lab.text(read)).count() == 2


CREATE = "CREATE TABLE {made} USING delta AS SELECT id, v FROM s"


@pytest.mark.thorough
def test_create_table_as_with_changed_statements_is_retried(lab: StreamLab) -> None:
    crash(lab, ProtocolPoint.BEFORE_STATEMENT, 1, CREATE, LOG)

    lab.consume(CREATE.replace("id, v", "v, id"), consumer="first")

    assert lab.rows("made") == [("10", 1), ("20", 2)]
