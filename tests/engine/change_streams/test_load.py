"""Partitions split and merge with load, and transactions over them are handed out whole."""

from __future__ import annotations

import pytest
from change_stream_lab import ChangeStreamLab

from airflow_provider_cdc.engine import InvalidRequest, Watch
from airflow_provider_cdc.engine.core.change_streams.stamps import moment_of

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
    assert [len(each.records) for each in whole[:2]] == [1, 2]
    for each in whole:
        assert {row.number_of_records_in_transaction for row in each.records} == {len(each.records)}
        assert {row.server_transaction_id for row in each.records} == {each.server_transaction_id}
    assert [row for each in whole for row in each.records] == lab.records()

    lab.engine.alter_change_stream("cs", target_rows=None)
    lab.sql(INSERT.format(2000, 2500))
    assert len(lab.advance().layout.open) == 1


def test_partition_is_split_at_a_key(lab: ChangeStreamLab) -> None:
    start = lab.create(BY_ID).created
    (token,) = lab.tokens(start)
    for at, cause in (({"v": "a"}, "the key of .*src is id"), ({"id": "x"}, "not a key of")):
        with pytest.raises(InvalidRequest, match=cause):
            lab.engine.split_partition("cs", token, at=at)
    with pytest.raises(InvalidRequest, match="it watches"):
        lab.engine.split_partition("cs", token, at={"id": 7}, table="other")
    stream = lab.engine.split_partition("cs", token, at={"ID": 7})
    lab.sql(INSERT.format(7, 8))
    lab.advance()

    second = stream.layout.open[1]
    rows = lab.read(moment_of(second.start), partition_token=stream.token_key.token(second))
    (record,) = rows[0].data_change_record
    assert [mod["keys"] for mod in record.mods] == ['{"id":"7"}']
