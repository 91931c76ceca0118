"""Deletion vectors: the bytes that Delta writes, and the bytes that the engine makes of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from airflow_provider_cdc.engine.core.delta import deletion_vectors
from airflow_provider_cdc.engine.core.delta.deletion_vectors import (
    MOST_INLINE_CHARACTERS,
    Bitmap,
    VectorFiles,
    complement,
    framed,
    inline_bytes,
    is_vector_file,
    positions,
    relative_path,
    z85_decode,
    z85_encode,
)
from airflow_provider_cdc.engine.core.delta.log_actions import DeletionVector

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
        (bytes.fromhex("864fd26fb559f75b"), "HelloWorld"),  # test vector of the Z85 specification
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
    files = VectorFiles()
    vector = files.vector(bitmap_of(deleted))
    assert (vector.storage_type, vector.offset) == ("i", None)
    assert vector.cardinality == len(deleted)
    assert positions(inline_bytes(vector)) == BitMap64(deleted)
    assert list(files.contents()) == []


def test_bitmap_without_positions_is_not_a_vector() -> None:
    assert Bitmap.of(BitMap64()) is None


def bitmap_of(deleted: Iterable[int]) -> Bitmap:
    found = Bitmap.of(BitMap64(deleted))
    assert found is not None
    return found


def test_vectors_too_large_for_the_log_are_in_a_file_as_delta_writes_it() -> None:
    files = VectorFiles()
    deleted = [range(0, 200_000, 2), range(1, 300_000, 3)]

    vectors = [files.vector(bitmap_of(rows)) for rows in deleted]

    ((name, content),) = files.contents()
    assert content[:1] == WRITTEN_BY_DELTA[:1]
    for vector, rows in zip(vectors, deleted, strict=True):
        assert (vector.storage_type, relative_path(vector)) == ("u", name)
        assert vector.cardinality == len(rows)
        found = framed(content, vector.offset or 0)
        assert len(found) == vector.size_bytes
        assert set(positions(found)) == set(rows)
        end = (vector.offset or 0) + 4 + vector.size_bytes
        assert content[end : end + 4] == zlib.crc32(found).to_bytes(4, "big")
    assert end + 4 == len(content)


def test_checksum_of_a_vector_is_that_of_delta() -> None:
    end = len(WRITTEN_BY_DELTA) - 4
    found = zlib.crc32(framed(WRITTEN_BY_DELTA, 1))
    assert WRITTEN_BY_DELTA[end:] == found.to_bytes(4, "big")


@pytest.mark.parametrize(("more", "storage_type"), [(0, "i"), (1, "p")])
def test_vector_is_inline_only_up_to_a_size(more: int, storage_type: str) -> None:
    largest = MOST_INLINE_CHARACTERS // 5 * 4
    files = VectorFiles("file:///the%20root/")

    vector = files.vector(Bitmap(b"x" * (largest + more), 1))

    assert vector.storage_type == storage_type
    assert len(vector.path_or_inline) <= MOST_INLINE_CHARACTERS < 65_535
    for name, _ in files.contents():
        assert vector.path_or_inline == f"file:///the%20root/{name}"
        assert is_vector_file(name)


def test_vector_file_that_is_full_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vectors, "_MOST_FILE_BYTES", 60_000)
    files = VectorFiles()
    bitmap = Bitmap(b"x" * 40_000, 1)

    names = [relative_path(files.vector(bitmap)) for _ in range(3)]

    assert [name for name, _ in files.contents()] == [names[0], names[2]]
    assert names[0] == names[1]


def test_inline_vector_of_any_size_is_made_readable() -> None:
    files = VectorFiles()
    small, large = bitmap_of([3]).inline(), bitmap_of(range(0, 300_000, 2)).inline()
    in_file = DeletionVector("p", "x" * MOST_INLINE_CHARACTERS, 9, 1, 1)

    assert files.readable(small) == small
    assert files.readable(in_file) == in_file
    assert list(files.contents()) == []
    found = files.readable(large)

    ((name, content),) = files.contents()
    assert relative_path(found) == name
    assert found.cardinality == 150_000
    assert set(positions(framed(content, found.offset or 0))) == set(range(0, 300_000, 2))


@given(st.integers(0, 300), st.data())
def test_complement_of_kept_rows_is_the_rest_of_the_file(count: int, data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.integers(0, count - 1))) if count else set()
    assert set(complement(BitMap64(kept), count)) == set(range(count)) - kept


def test_complement_of_few_rows_of_a_large_file_stays_small() -> None:
    rest = complement(BitMap64([5, 3_000_000]), 10_000_000)
    assert len(rest) == 9_999_998
    assert len(rest.serialize()) < 5_000


def test_positions_without_the_magic_number_are_refused() -> None:
    with pytest.raises(ValueError, match="deletion vector: expected magic 1681511377, found 0"):
        positions(b"\0" * 20)
