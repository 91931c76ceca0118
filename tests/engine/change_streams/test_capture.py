"""What change streams capture of changed rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from change_stream_lab import ChangeStreamLab
from stream_lab import Crash

from airflow_provider_cdc.engine import InvalidRequest, Watch
from airflow_provider_cdc.engine.spark.change_streams.capture_files import CaptureFiles
from airflow_provider_cdc.engine.spark.change_streams.capturing import Capturing
from airflow_provider_cdc.engine.storage.state.captures import Captures
from airflow_provider_cdc.engine.storage.state.change_streams import ChangeStreams

BY_ID = {"src": Watch(keys=["id"])}


def test_each_kind_of_change_gives_its_record(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID)
    lab.sql(
        "INSERT INTO {src} VALUES (3, 'c', 30)",
        "UPDATE {src} SET n = 11 WHERE id = 1",
        "DELETE FROM {src} WHERE id = 2",
    )
    lab.advance()

    assert lab.mods() == [
        ("INSERT", {"id": "3"}, {"v": "c", "n": "30"}, {}),
        ("UPDATE", {"id": "1"}, {"n": "11"}, {"n": "10"}),
        ("DELETE", {"id": "2"}, {}, {"v": "b", "n": "20"}),
    ]
    inserted, updated, _ = lab.records()
    assert [each.name for each in updated.column_types] == ["id", "n"]
    assert [tuple(each) for each in inserted.column_types] == [
        ("id", '{"code":"INT64"}', True, 1),
        ("v", '{"code":"STRING"}', False, 2),
        ("n", '{"code":"INT64"}', False, 3),
    ]
    assert [row.number_of_records_in_transaction for row in lab.records()] == [1, 1, 1]
    assert all(row.is_last_record_in_transaction_in_partition for row in lab.records())


def test_update_of_a_key_is_a_delete_and_an_insert(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID)
    lab.sql("UPDATE {src} SET id = 7 WHERE id = 1")
    lab.advance()

    assert lab.mods() == [
        ("DELETE", {"id": "1"}, {}, {"v": "a", "n": "10"}),
        ("INSERT", {"id": "7"}, {"v": "a", "n": "10"}, {}),
    ]
    assert {row.number_of_records_in_transaction for row in lab.records()} == {2}
    assert [row.record_sequence for row in lab.records()] == ["00000000", "00000001"]


def test_captured_records_are_captured_once(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.advance()
    lab.advance()
    lab.sql("INSERT INTO {src} VALUES (4, 'd', 40)")
    lab.advance()

    assert [mod[1]["id"] for mod in lab.mods()] == ["3", "4"]


def test_columns_are_those_of_the_commit(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID)
    lab.sql(
        "UPDATE {src} SET n = 11 WHERE id = 1",
        "ALTER TABLE {src} ADD COLUMNS (w DATE)",
        "INSERT INTO {src} VALUES (3, 'c', 30, DATE'2026-01-02')",
    )
    lab.advance()

    assert lab.mods() == [
        ("UPDATE", {"id": "1"}, {"n": "11"}, {"n": "10"}),
        ("INSERT", {"id": "3"}, {"v": "c", "n": "30", "w": "2026-01-02"}, {}),
    ]
    types = [json.loads(each.type)["code"] for each in lab.records()[1].column_types]
    assert types == ["INT64", "STRING", "INT64", "DATE"]


def test_two_rows_with_one_key_stop_the_capture(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID)
    lab.sql(
        "INSERT INTO {src} VALUES (3, 'c', 30)", "INSERT INTO {src} VALUES (4, 'x', 1), (4, 'y', 2)"
    )

    with pytest.raises(InvalidRequest, match=r"have a key of .*src at version 3: {\"id\":\"4\"}"):
        lab.advance()
    assert lab.records() == []


def test_two_rows_with_one_key_are_kept_apart_on_request(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID, on_duplicate_key="quarantine")
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30), (4, 'x', 1), (4, 'y', 2)")
    lab.advance()

    assert [mod[1] for mod in lab.mods()] == [{"id": "3"}]


def test_table_without_keys_has_row_ids_as_keys(lab: ChangeStreamLab) -> None:
    lab.create({"src": Watch(columns=["v"])})
    lab.sql("UPDATE {src} SET v = 'z', n = 5 WHERE id = 1", "UPDATE {src} SET n = 6 WHERE id = 2")
    lab.advance()

    ((kind, keys, new, old),) = lab.mods()
    assert (kind, new, old) == ("UPDATE", {"v": "z"}, {"v": "a"})
    assert list(keys) == ["METADATA$ROW_ID"]


def test_columns_named_like_those_of_a_feed_are_captured(lab: ChangeStreamLab) -> None:
    lab.make(
        "odd",
        "_feed_change_type INT, __feed_commit_version STRING",
        properties="'delta.enableRowTracking' = 'true'",
    )
    lab.create({"odd": Watch(keys=["_feed_change_type"])})
    lab.sql("INSERT INTO {odd} VALUES (1, 'a')", "DELETE FROM {odd}")
    lab.advance()

    key, row = {"_feed_change_type": "1"}, {"__feed_commit_version": "a"}
    assert lab.mods() == [("INSERT", key, row, {}), ("DELETE", key, {}, row)]


def test_excluded_kinds_of_changes_give_no_records(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID, exclude_insert=True, exclude_delete=True)
    lab.sql(
        "INSERT INTO {src} VALUES (3, 'c', 30)",
        "UPDATE {src} SET n = 11 WHERE id = 1",
        "DELETE FROM {src} WHERE id = 2",
    )
    lab.advance()

    assert [mod[0] for mod in lab.mods()] == ["UPDATE"]


def test_values_of_each_type_are_shown_as_spanner_does(lab: ChangeStreamLab) -> None:
    lab.make(
        "types",
        "k STRING, s SMALLINT, d DECIMAL(10, 2), f FLOAT, b BINARY, t TIMESTAMP, n TIMESTAMP_NTZ,"
        " a ARRAY<BIGINT>, c STRUCT<x: INT, y: STRING>, m MAP<STRING, INT>, o BOOLEAN, z STRING",
        properties="'delta.enableRowTracking' = 'true'",
    )
    lab.create({"types": Watch(keys=["k"])})
    lab.sql(
        "INSERT INTO {types} VALUES ('q\"', 7, 1.50, 'NaN', X'00ff',"
        " TIMESTAMP'2026-01-02T03:04:05Z', TIMESTAMP_NTZ'2026-01-02T03:04:05.25', array(1, NULL),"
        " struct(1, NULL), map('p', 2), true, NULL)"
    )
    lab.advance()

    assert lab.mods() == [
        (
            "INSERT",
            {"k": 'q"'},
            {
                "s": "7",
                "d": "1.50",
                "f": "NaN",
                "b": "AP8=",
                "t": "2026-01-02T03:04:05Z",
                "n": "2026-01-02T03:04:05.25",
                "a": ["1", None],
                "c": '{"x":"1","y":null}',
                "m": '{"p":"2"}',
                "o": True,
                "z": None,
            },
            {},
        )
    ]
    types = {each.name: json.loads(each.type) for each in lab.records()[0].column_types}
    assert types["a"] == {"code": "ARRAY", "array_element_type": {"code": "INT64"}}
    codes = {name: kind["code"] for name, kind in types.items()}
    assert codes == {
        "k": "STRING",
        "s": "INT64",
        "d": "NUMERIC",
        "f": "FLOAT32",
        "b": "BYTES",
        "t": "TIMESTAMP",
        "n": "STRING",
        "a": "ARRAY",
        "c": "JSON",
        "m": "JSON",
        "o": "BOOL",
        "z": "STRING",
    }


@pytest.mark.in_ci("n")
@pytest.mark.parametrize("renamed", ["n", "id"])
def test_renamed_columns_keep_being_watched(lab: ChangeStreamLab, renamed: str) -> None:
    lab.make(
        "mapped",
        "id INT, n INT",
        "INSERT INTO {t} VALUES (1, 10)",
        properties="'delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'name'",
    )
    lab.create({"mapped": Watch(keys=["id"], columns=["n"])})
    lab.sql(
        "UPDATE {mapped} SET n = 11",
        f"ALTER TABLE {{mapped}} RENAME COLUMN {renamed} TO other",
        "DELETE FROM {mapped}",
    )
    lab.advance()

    first, second = lab.mods()
    assert first == ("UPDATE", {"id": "1"}, {"n": "11"}, {"n": "10"})
    names = {"id": "id", "n": "n", renamed: "other"}
    assert second == ("DELETE", {names["id"]: "1"}, {}, {names["n"]: "11"})


@pytest.mark.parametrize("point", ["rows", "publication", "captured", "aligned"])
def test_capture_that_is_killed_is_repeated_exactly(
    lab: ChangeStreamLab, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)", "DELETE FROM {src} WHERE id = 1")

    with monkeypatch.context() as patched:
        kill_before(patched, point)
        with pytest.raises(Crash):
            lab.advance()
    # The next one finds more to seal, and must not mix it with what was begun.
    lab.sql("INSERT INTO {src} VALUES (5, 'e', 50)")
    stream = lab.advance()

    assert [(mod[0], mod[1]["id"]) for mod in lab.mods()] == [
        ("INSERT", "3"),
        ("DELETE", "1"),
        ("INSERT", "5"),
    ]
    assert stream.pending == ()
    status = lab.engine.describe_stream(stream.tables[0].stream)
    assert status.offset_version == stream.tables[0].captured == lab.version("src")


def kill_before(patched: pytest.MonkeyPatch, point: str) -> None:
    """Let a capture crash before it writes or publishes its rows, or records what it did."""
    written, updated, aligned = CaptureFiles._written, ChangeStreams.update, Capturing._aligned
    seen = {"updates": 0, "alignments": 0}

    def write(self: Any, *arguments: Any) -> Any:
        if point == "rows":
            raise Crash
        return written(self, *arguments)

    def publish(self: Any, *arguments: Any) -> Any:
        raise Crash

    def update(self: Any, name: str, change: Any) -> Any:
        seen["updates"] += 1
        # The tick and the beginning of the capture come first.
        if point == "captured" and seen["updates"] == 3:
            raise Crash
        return updated(self, name, change)

    def align(self: Any, stream: Any) -> Any:
        seen["alignments"] += 1
        if point == "aligned" and seen["alignments"] == 2:
            raise Crash
        return aligned(self, stream)

    patched.setattr(CaptureFiles, "_written", write)
    if point == "publication":
        patched.setattr(Captures, "publish", publish)
        # A killed process removes nothing.
        patched.setattr(Captures, "remove_rows", lambda *_: None)
    patched.setattr(ChangeStreams, "update", update)
    patched.setattr(Capturing, "_aligned", align)
