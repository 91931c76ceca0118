"""The hashed key space of a change stream is cut into buckets without a gap."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.change_streams.key_ranges import (
    BUCKETS,
    KeyRange,
    bucket_of,
    equal_ranges,
)

LEAST, GREATEST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("key_hash", "bucket"),
    [(LEAST, 0), (-1, BUCKETS // 2 - 1), (0, BUCKETS // 2), (GREATEST, BUCKETS - 1)],
)
def test_bucket_of_a_hash_is_its_place_in_the_key_space(key_hash: int, bucket: int) -> None:
    assert bucket_of(key_hash) == bucket


@given(st.integers(LEAST, GREATEST - 1))
def test_buckets_follow_the_order_of_hashes(key_hash: int) -> None:
    assert 0 <= bucket_of(key_hash) <= bucket_of(key_hash + 1) < BUCKETS


@given(st.integers(1, BUCKETS))
def test_equal_ranges_cover_the_key_space(count: int) -> None:
    ranges = equal_ranges(count)
    assert len(ranges) == count
    assert ranges[0].low == 0
    assert ranges[-1].high == BUCKETS
    assert all(one.high == other.low for one, other in pairwise(ranges))
    sizes = {keys.size for keys in ranges}
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("low", "high"), [(-1, 5), (5, 5), (6, 5), (0, BUCKETS + 1)])
def test_range_outside_the_key_space_is_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= low < high"):
        KeyRange(low, high)
