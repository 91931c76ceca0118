"""Partitions split and merge with load, and transactions over them are handed out whole."""

from __future__ import annotations

import pytest
from change_stream_lab import ChangeStreamLab

from airflow_provider_cdc.engine import InvalidRequest, Watch

BY_ID = {"src": Watch(keys=["id"])}
INSERT = "INSERT INTO {{src}} SELECT CAST(id AS INT), 'x', id FROM range({}, {})"


def test_partitions_split_and_merge_with_load(lab: ChangeStreamLab) -> None:
    with pytest.raises(InvalidRequest, match="target_rows = 0"):
        lab.create(BY_ID, target_rows=0)
    start = lab.create(BY_ID, target_rows=100).created
    counts = []
    for begin, end in ((10, 510), (510, 1010), (1010, 1014), (1014, 1015)):
        lab.sql(INSERT.format(begin, end))
        counts.append(len(lab.advance().layout.open))
    # An advance without a change says nothing of the load.
    counts.append(len(lab.advance().layout.open))

    assert counts == [2, 4, 2, 1, 1]
    walked = [mod["keys"] for row in lab.walk(start) for mod in row.mods]
    assert len(walked) == len(set(walked)) == 1005

    whole = lab.engine.change_records("cs", group_by_transaction=True).collect()
    assert [len(each.records) for each in whole] == [1, 2, 4, 1]
    for each in whole:
        assert {row.number_of_records_in_transaction for row in each.records} == {len(each.records)}
        assert {row.server_transaction_id for row in each.records} == {each.server_transaction_id}
    assert [row for each in whole for row in each.records] == lab.records()

    lab.engine.alter_change_stream("cs", target_rows=None)
    lab.sql(INSERT.format(2000, 2500))
    assert len(lab.advance().layout.open) == 1
