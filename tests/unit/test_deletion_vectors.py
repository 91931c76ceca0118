"""Deletion vectors: the bytes that Delta writes, and the ones that are made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from airflow_provider_cdc.engine.core.deletion_vectors import (
    all_but,
    framed,
    inline,
    inline_bytes,
    positions,
    relative_path,
    z85_decode,
    z85_encode,
)
from airflow_provider_cdc.engine.core.log_actions import DeletionVector

# A file that Delta 4.4 wrote: format version, length, bitmap of rows 1, 2, 5 and 6, checksum.
WRITTEN_BY_DELTA = bytes.fromhex(
    "0100000028d1d339640100000000000000000000003a30000001000000000003001000000001000200050006005a8e"
    "7dc7"
)
POSITIONS = st.sets(
    st.one_of(st.integers(0, 50), st.integers(0, 2**17), st.integers(0, 2**34)), max_size=60
)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (bytes.fromhex("864fd26fb559f75b"), "HelloWorld"),  # the vector of Z85's own specification
        (b"", ""),
        (b"\0\0\0\0", "00000"),
        (b"\xff\xff\xff\xff", "%nSc0"),
    ],
)
def test_z85_of_known_vectors_is_as_specified(content: bytes, text: str) -> None:
    assert z85_encode(content) == text
    assert z85_decode(text) == content


@given(st.binary(max_size=200))
def test_z85_of_any_bytes_comes_back_padded(content: bytes) -> None:
    decoded = z85_decode(z85_encode(content))
    assert decoded[: len(content)] == content
    assert decoded[len(content) :] == b"\0" * (-len(content) % 4)


def test_positions_of_a_file_written_by_delta_are_its_deleted_rows() -> None:
    assert positions(framed(WRITTEN_BY_DELTA, 1)) == BitMap64([1, 2, 5, 6])


def test_positions_of_the_protocols_inline_example_are_its_rows() -> None:
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    vector = DeletionVector("i", text, None, 44, 6)
    assert positions(inline_bytes(vector)) == BitMap64([3, 4, 7, 11, 18, 29])


def test_relative_path_of_the_protocols_example_is_its_file() -> None:
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert relative_path(vector) == f"ab/{name}"
    bare = DeletionVector("u", "^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    assert relative_path(bare) == name


@given(POSITIONS.filter(bool))
def test_inline_of_any_positions_comes_back(deleted: set[int]) -> None:
    vector = inline(BitMap64(deleted))
    assert vector is not None
    assert (vector.storage_type, vector.offset) == ("i", None)
    assert vector.cardinality == len(deleted)
    assert positions(inline_bytes(vector)) == BitMap64(deleted)


def test_inline_of_no_positions_is_no_vector() -> None:
    assert inline(BitMap64()) is None


@given(st.integers(0, 300), st.data())
def test_all_but_of_kept_rows_is_the_rest_of_the_file(count: int, data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.integers(0, count - 1))) if count else set()
    assert set(all_but(BitMap64(kept), count)) == set(range(count)) - kept


def test_all_but_of_few_rows_of_a_large_file_stays_small() -> None:
    rest = all_but(BitMap64([5, 3_000_000]), 10_000_000)
    assert len(rest) == 9_999_998
    assert len(rest.serialize()) < 5_000


def test_positions_without_the_magic_number_are_refused() -> None:
    with pytest.raises(ValueError, match="deletion vector: expected magic 1681511377, found 0"):
        positions(b"\0" * 20)
