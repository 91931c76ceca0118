"""A partition token names one partition of one change stream, and cannot be made by others."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.change_streams.key_ranges import BUCKETS, KeyRange
from airflow_provider_cdc.engine.core.change_streams.layout import Partition
from airflow_provider_cdc.engine.core.change_streams.tokens import TokenKey
from airflow_provider_cdc.engine.core.errors import InvalidPartitionToken

STREAM, OTHER = "0123456789abcdef" * 2, "f" * 32
KEY = TokenKey("change stream s", STREAM, b"secret")
PARTITIONS = st.builds(
    lambda start, sequence, bounds: Partition(start, sequence, KeyRange(*sorted(bounds))),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, BUCKETS), min_size=2, max_size=2, unique=True),
)
ONE = Partition(1_664_281_800_123_456, 3, KeyRange(1024, 2048))
ALPHABET = string.ascii_letters + string.digits + "-_"


@given(PARTITIONS)
def test_token_leads_back_to_its_partition_and_is_always_the_same(partition: Partition) -> None:
    token = KEY.token(partition)
    assert KEY.partition(token) == partition
    assert token == KEY.token(partition)
    assert set(token) <= set(ALPHABET)


@given(PARTITIONS, st.data())
def test_edited_token_is_refused(partition: Partition, data: st.DataObject) -> None:
    token = KEY.token(partition)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from(ALPHABET).filter(lambda each: each != token[place]))
    with pytest.raises(InvalidPartitionToken):
        KEY.partition(token[:place] + other + token[place + 1 :])


@given(st.text(max_size=60))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidPartitionToken, match="is not a partition token"):
        KEY.partition(text)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (TokenKey("s", OTHER, b"secret"), "another change stream"),
        (TokenKey("s", STREAM, b"other"), "was edited"),
    ],
)
def test_token_of_another_stream_or_secret_is_refused(key: TokenKey, message: str) -> None:
    with pytest.raises(InvalidPartitionToken, match=message):
        KEY.partition(key.token(ONE))


@pytest.mark.parametrize("edit", ["{}=", "{}==", " {}", "{}\n", "{}A"])
def test_token_in_another_spelling_is_refused(edit: str) -> None:
    with pytest.raises(InvalidPartitionToken):
        KEY.partition(edit.format(KEY.token(ONE)))
