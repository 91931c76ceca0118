"""The records that captures make, and captures that are compacted."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.change_streams.captures import (
    QUARANTINED,
    Capture,
    CapturedColumn,
    CapturedCommit,
    CapturedGroup,
    CapturedSource,
    RecordTimes,
    compactable,
    compacted,
    covering,
    record_groups,
)
from airflow_provider_cdc.engine.core.change_streams.definition import Int64As
from airflow_provider_cdc.engine.core.change_streams.key_ranges import KeyRange
from airflow_provider_cdc.engine.core.change_streams.layout import Partition
from airflow_provider_cdc.engine.core.change_streams.stamps import MICROSECONDS_AN_HOUR as HOUR
from airflow_provider_cdc.engine.core.change_streams.value_capture import ValueCaptureType
from airflow_provider_cdc.engine.core.model.json_text import from_json, to_json


def source(name: str) -> CapturedSource:
    column = CapturedColumn("id", 1, True, '{"code":"INT64"}', "bigint")
    return CapturedSource(name, (column,), ValueCaptureType.OLD_AND_NEW_VALUES, Int64As.STRING)


def capture(begin: int, through: int, *groups: CapturedGroup, names: str = "ab") -> Capture:
    commits = {
        (group.source, group.version): CapturedCommit(
            group.source, group.version, group.stamp, f"t{group.stamp}"
        )
        for group in groups
    }
    return Capture(
        begin, through, f"f{begin}", (), tuple(map(source, names)), tuple(commits.values()), groups
    )


def group(
    stamp: int, source: int, kind: str, first_bucket: int, rows: int, *cuts: int
) -> CapturedGroup:
    return CapturedGroup(stamp, source, stamp, kind, "*", first_bucket, rows, cuts)


def test_records_of_a_transaction_are_numbered_over_all_partitions() -> None:
    found = list(
        record_groups(
            capture(
                1,
                9,
                group(9, 0, "INSERT", 0, 1),
                group(5, 1, "DELETE", 7, 1),
                group(5, 0, "INSERT", 7, 2001, 8, 9),
                group(5, 0, "INSERT", 0, 1000),
                group(5, 0, QUARANTINED, 3, 4),
            )
        )
    )

    shown = [
        (each.source.table_name, each.group.first_bucket, each.first_record, each.records)
        for each in found
    ]
    assert shown == [("a", 0, 0, 1), ("a", 7, 1, 3), ("b", 7, 4, 1), ("a", 0, 0, 1)]
    numbers = [(each.records_in_transaction, each.partitions_in_transaction) for each in found]
    assert numbers == [(5, 2), (5, 2), (5, 2), (1, 1)]
    assert [each.has_last_record for each in found] == [True, False, True, True]
    assert {each.transaction_id for each in found} == {"t5", "t9"}


def test_partition_has_records_between_both_stamps_inclusive() -> None:
    times = RecordTimes.of(
        [capture(1, 9, group(5, 0, "INSERT", 7, 1), group(8, 0, QUARANTINED, 7, 1))]
    )
    partition = Partition(0, 0, KeyRange(7, 9))

    assert times.has_any(partition, 5, 5)
    assert not times.has_any(partition, 1, 4)
    assert not times.has_any(partition, 6, 9)
    assert not times.has_any(Partition(0, 0, KeyRange(0, 7)), 1, 9)


@given(st.integers(0, 10**6))
def test_compacted_captures_replace_the_ones_that_they_hold(seed: int) -> None:
    chance = random.Random(seed)
    at, spans = 0, []
    for _ in range(chance.randrange(1, 9)):
        begin = at + chance.randrange(1, 5)
        at = begin + chance.randrange(5)
        spans.append((begin, at))
    first = chance.randrange(len(spans))
    last = chance.randrange(first, len(spans))
    wide = (spans[first][0], spans[last][1])
    begin, through = sorted((chance.randrange(at + 3), chance.randrange(at + 3)))

    found = covering([*spans, wide], begin, through)

    held = {stamp for span in spans for stamp in range(span[0], span[1] + 1)}
    wanted = held.intersection(range(begin, through + 1))
    times = [stamp for span in found for stamp in range(span[0], span[1] + 1)]
    assert [times.count(stamp) for stamp in wanted] == [1] * len(wanted)


def test_captures_of_an_hour_are_compacted_once_it_is_over() -> None:
    one, two = capture(HOUR + 1, HOUR + 5), capture(HOUR + 6, HOUR + 9)
    across, later = capture(HOUR + 10, 2 * HOUR), capture(2 * HOUR + 1, 2 * HOUR + 2)
    given = [one, two, across, later]

    assert compactable(given, 2 * HOUR - 1) == []
    assert compactable(given, 2 * HOUR) == [[one, two]]
    assert compactable([compacted([one, two], "f", ()), across, later], 3 * HOUR) == []


def records(found: Capture) -> list[tuple[object, ...]]:
    """The records of a capture, without the places of their sources in it."""
    return [
        (each.source, each.group._replace(source=0), each.transaction_id, each.first_record)
        for each in record_groups(found)
    ]


def test_compacted_capture_makes_the_same_records() -> None:
    one = capture(1, 5, group(5, 0, "INSERT", 7, 2), group(5, 1, "DELETE", 7, 1))
    two = capture(6, 9, group(9, 0, "INSERT", 0, 3), names="b")

    both = compacted([one, two], "f", ())

    assert (both.begin, both.through, both.is_compacted) == (1, 9, True)
    assert records(both) == [*records(one), *records(two)]
    assert from_json(to_json(both), Capture) == both
