"""Streams report when their row ids are no longer reliable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracle import MakeTable

from airflow_provider_cdc.engine.core.errors import ChangeTrackingDisabled, StreamStale

ROWS = ("1, 'a'", "2, 'b'")
COLUMNS = "id INT, v STRING"
OFF = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')"
ON = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"


@pytest.mark.thorough
def test_stream_across_row_tracking_switched_off_and_on_is_unusable(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    stream = table.stream()
    table.sql(OFF)
    with pytest.raises(ChangeTrackingDisabled, match="version 2 switched row tracking off"):
        table.read(stream)
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", ON)
    with pytest.raises(StreamStale, match="version 2 switched row tracking off"):
        table.may_have_data(stream)
    anew = table.stream()
    table.sql("UPDATE {t} SET v = 'y' WHERE id = 1")
    assert len(table.check(anew)) == 2


def test_stream_across_a_dropped_feature_is_unusable(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    stream = table.stream()
    table.sql("ALTER TABLE {t} DROP FEATURE rowTracking")
    with pytest.raises(ChangeTrackingDisabled):
        table.read(stream)
    table.sql(ON)
    with pytest.raises(StreamStale, match=r"assigned row ids again|row tracking"):
        table.read(stream)


@pytest.mark.thorough
def test_stream_begun_before_the_backfill_is_stale(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    table.sql("ALTER TABLE {t} DROP FEATURE rowTracking")
    untracked = table.version
    early = table.stream()
    table.sql(ON)
    backfilled = table.stream()
    with pytest.raises(StreamStale, match=r"version \d+ set up row tracking again"):
        table.read(early)
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    assert len(table.check(backfilled)) == 2
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {untracked}")
    with pytest.raises(ChangeTrackingDisabled, match="switched row tracking off"):
        table.read(backfilled)


def test_stream_across_create_or_replace_is_stale(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    stream = table.stream()
    table.sql("CREATE OR REPLACE TABLE {t} USING delta AS SELECT 1 AS id, 'a' AS v")
    with pytest.raises(StreamStale, match=r"its source the source was replaced.*Fix: recover each"):
        table.read(stream)
    frame = table.spark.sql("SELECT 2 AS id, 'b' AS v")
    frame.writeTo(table.name).using("delta").createOrReplace()
    with pytest.raises(StreamStale, match=r"expected table id .*, found"):
        table.may_have_data(stream)


@pytest.mark.thorough
def test_stream_across_an_undone_replace_without_tracking_is_stale(
    make_table: MakeTable,
) -> None:
    table = make_table(COLUMNS, *ROWS)
    stream = table.stream()
    table.sql(
        "CREATE OR REPLACE TABLE {t} USING delta"
        " TBLPROPERTIES ('delta.enableRowTracking' = 'false') AS SELECT 1 AS id, 'a' AS v"
    )
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {stream.offset.version}")
    with pytest.raises(StreamStale, match="version 2 switched row tracking off"):
        table.read(stream)


def test_stream_across_an_overwrite_marked_as_no_data_change_is_stale(
    make_table: MakeTable,
) -> None:
    """Delta writes the rows of such an overwrite as new rows, but marks the commit as no data
    change.
    """
    table = make_table(COLUMNS, *ROWS, "3, 'c'")
    streams = table.stream(), table.inserted(), table.surviving()
    rows = table.spark.read.format("delta").load(table.location).repartition(1)
    writer = rows.write.format("delta").mode("overwrite").option("dataChange", "false")
    writer.save(table.location)
    cause = "version 2, WRITE, did not keep the row ids"
    for stream in streams:
        with pytest.raises(StreamStale, match=cause):
            table.may_have_data(stream)
    anew = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "INSERT INTO {t} VALUES (4, 'd')")
    for stream in streams:
        with pytest.raises(StreamStale, match=cause):
            table.read(stream)
    assert len(table.check(anew)) == 3


@pytest.mark.in_ci("alone")
@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "beside a change"])
def test_stream_across_an_append_marked_as_no_data_change_is_stale(
    make_table: MakeTable, is_alone: bool
) -> None:
    table = make_table(COLUMNS, *ROWS)
    streams = table.stream(), table.inserted(), table.surviving()
    rows = table.spark.read.format("delta").load(table.location)
    rows.write.format("delta").mode("append").option("dataChange", "false").save(table.location)
    if not is_alone:
        table.sql("INSERT INTO {t} VALUES (4, 'd')")
    for stream in streams:
        with pytest.raises(StreamStale, match="or removed rows, but is marked as changing no data"):
            table.read(stream)
    assert table.check(table.stream()) == []


@pytest.mark.in_ci("size")
@pytest.mark.parametrize("field", ["baseRowId", "defaultRowCommitVersion", "size"])
def test_file_actions_that_lack_fields_are_refused(make_table: MakeTable, field: str) -> None:
    """The protocol allows a ``remove`` without the row ids of the file, and without its size and
    partition values.
    """
    table = make_table(COLUMNS, *ROWS, vectors=False)
    stream, surviving = table.stream(), table.surviving()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "INSERT INTO {t} VALUES (3, 'c')")
    commit = Path(table.location, "_delta_log", f"{stream.offset.version + 1:020d}.json")
    actions = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        action.get("remove", {}).pop(field, None)
    commit.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")

    with pytest.raises(StreamStale, match="1 of 3 actions of the source's log lack baseRowId"):
        table.read(stream)
    assert {change.values for change in table.changes(surviving)} == {(3, "c")}
