"""Histories of keys with many versions, which arrive in random order and several times."""

from __future__ import annotations

import pytest
from history_lab import HistoryLab

# A key is deleted at every seventh sequence, and has an equal value at every fifth.
EVENTS = """
    SELECT CAST(k AS STRING) AS k, CAST(s AS INT) AS seq, if(s % 7 = 0, 'D', 'U') AS op,
        if(s % 7 = 0, NULL, concat('v', CAST(if(s % 5 = 0, s - 1, s) AS STRING))) AS v,
        CAST(NULL AS STRING) AS u
    FROM range({keys}) AS keys(k) CROSS JOIN range(1, {versions} + 1) AS versions(s)
"""
# What the events say, by Spark's own windows: an upsert begins a row unless the event before it is
# an upsert with its value, and a row lasts until the next row or the next delete.
EXPECTED = """
    SELECT k, v, seq AS start, lead(seq) OVER (PARTITION BY k ORDER BY seq) AS end, op
    FROM (SELECT *, lag(v) OVER (PARTITION BY k ORDER BY seq) AS before FROM ({events}))
    WHERE op = 'D' OR NOT (v <=> before)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("keys", "versions"), [(10_000, 100)])
def test_many_versions_of_a_key_are_split_by_late_ones(
    lab: HistoryLab, keys: int, versions: int
) -> None:
    events = EVENTS.format(keys=keys, versions=versions)
    lab.make_events("history")
    for batch in range(3):
        # Each event comes in one of three batches, and a tenth of them comes in each.
        mine = f"pmod(xxhash64(k, seq), 3) = {batch} OR pmod(xxhash64(seq, k), 10) = 0"
        lab.sql(f"INSERT INTO {{events}} SELECT * FROM ({events}) WHERE {mine}")
        lab.apply("history", scd_type=2)

    expected = lab.spark.sql(
        f"SELECT k, v, start, end FROM ({EXPECTED.format(events=events)}) WHERE op = 'U'"
    )
    found = lab.spark.table(lab.name("history")).selectExpr(
        "k", "v", "__START_AT AS start", "__END_AT AS end"
    )
    assert expected.count() >= keys * versions // 2
    assert found.exceptAll(expected).isEmpty()
    assert expected.exceptAll(found).isEmpty()
