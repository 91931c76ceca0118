"""What change streams capture of changed rows."""

from __future__ import annotations

import json

from change_stream_lab import ChangeStreamLab

from airflow_provider_cdc.engine import Watch

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
