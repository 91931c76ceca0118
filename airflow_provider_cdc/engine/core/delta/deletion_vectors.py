"""Deletion vectors: reading their bytes, and making new ones, inline or in files.

The format is that of the Delta protocol, sections "Deletion Vectors" and "Deletion Vector File
Storage Format". A deletion vector is a 64-bit roaring bitmap of row positions after a magic number.
Inline ones are written in Z85.
"""

from __future__ import annotations

import base64
import re
import struct
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from pyroaring import BitMap64

from .log_actions import DeletionVector

MAGIC = 1681511377
_UUID_CHARACTERS = 20
_VECTOR_FILE = re.compile(r"deletion_vector_[0-9a-fA-F-]+\.bin")
# Delta passes the text of an inline deletion vector to executors by Java's writeUTF, which takes
# 65,535 bytes. Half of that leaves room for a text that is encoded once more. It also keeps tasks
# small: each task carries the deletion vectors of its files.
MOST_INLINE_CHARACTERS = 32_767
_FILE_VERSION = b"\1"
# An offset is a signed integer of 32 bits. A file far below that size is quick to write and read.
_MOST_FILE_BYTES = 64 << 20

# Z85 and Python's base 85 differ only in the alphabet.
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85 = bytes.maketrans(_B85, _Z85)
_FROM_Z85 = bytes.maketrans(_Z85, _B85)


def positions(content: bytes) -> BitMap64:
    """The deleted positions in the serialised bitmap ``content``.

    :raises ValueError: ``content`` does not start with the magic number of a portable bitmap
    """
    (magic,) = struct.unpack_from("<I", content)
    if magic != MAGIC:
        raise ValueError(f"deletion vector: expected magic {MAGIC}, found {magic}")
    return BitMap64.deserialize(content[4:])


def framed(content: bytes, offset: int) -> bytes:
    """The serialised bitmap at ``offset`` of a deletion-vector file.

    Its length comes before it, as a big-endian integer.
    """
    (length,) = struct.unpack_from(">i", content, offset)
    start = offset + 4
    return content[start : start + length]


def inline_bytes(vector: DeletionVector) -> bytes:
    """The serialised bitmap of an inline deletion vector."""
    return z85_decode(vector.path_or_inline)[: vector.size_bytes]


@dataclass(frozen=True, slots=True)
class Bitmap:
    """The rows that a deletion vector deletes, serialised.

    The place of the vector is not chosen yet.
    """

    content: bytes
    cardinality: int

    @classmethod
    def of(cls, deleted: BitMap64) -> Bitmap | None:
        """The bitmap that deletes exactly ``deleted``. ``None`` if that is nothing."""
        if not deleted:
            return None
        return cls(struct.pack("<I", MAGIC) + deleted.serialize(), len(deleted))

    @property
    def is_inline(self) -> bool:
        """Whether it is small enough for an inline deletion vector."""
        return z85_length(self.content) <= MOST_INLINE_CHARACTERS

    def inline(self) -> DeletionVector:
        """The inline deletion vector of this bitmap."""
        return DeletionVector("i", z85_encode(self.content), len(self.content), self.cardinality)


class VectorFiles:
    """Gives each deletion vector of a new log its place: inline, or in a file in the table's root.

    :param root: the percent-encoded URI of the table's root; vectors then name their files by this
        URI, and by default relative to the table
    """

    def __init__(self, root: str | None = None) -> None:
        self._root = root
        self._files: list[tuple[uuid.UUID, bytearray]] = []

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """The name in the root, and the content, of each file that must exist before the log."""
        for name, content in self._files:
            yield vector_file_name(name), bytes(content)

    def vector(self, bitmap: Bitmap) -> DeletionVector:
        """The deletion vector of ``bitmap``."""
        return bitmap.inline() if bitmap.is_inline else self._in_file(bitmap)

    def readable(self, vector: DeletionVector) -> DeletionVector:
        """``vector``, or one in a file with the same rows if ``vector`` is too long for Delta.

        Some writers do not keep their inline deletion vectors small, and Delta cannot read them.
        """
        is_inline = vector.storage_type == "i"
        if not is_inline or len(vector.path_or_inline) <= MOST_INLINE_CHARACTERS:
            return vector
        return self._in_file(Bitmap(inline_bytes(vector), vector.cardinality))

    def _in_file(self, bitmap: Bitmap) -> DeletionVector:
        if not self._files or len(self._files[-1][1]) >= _MOST_FILE_BYTES:
            self._files.append((uuid.uuid4(), bytearray(_FILE_VERSION)))
        name, file = self._files[-1]
        offset, size_bytes = len(file), len(bitmap.content)
        file += struct.pack(">i", size_bytes)
        file += bitmap.content
        file += struct.pack(">I", zlib.crc32(bitmap.content))
        place = ("u", z85_encode(name.bytes))
        if self._root is not None:
            place = ("p", f"{self._root.rstrip('/')}/{vector_file_name(name)}")
        return DeletionVector(*place, size_bytes, bitmap.cardinality, offset)


def complement(kept: BitMap64, record_count: int) -> BitMap64:
    """Every position of a file of ``record_count`` rows that is not in ``kept``."""
    everything = BitMap64(range(0))
    everything.add_range(0, record_count)
    rest = everything - kept
    rest.run_optimize()
    return rest


def relative_path(vector: DeletionVector) -> str:
    """The path, relative to the table, of the file of a ``u`` vector."""
    prefix = vector.path_or_inline[:-_UUID_CHARACTERS]
    name = uuid.UUID(bytes=z85_decode(vector.path_or_inline[-_UUID_CHARACTERS:]))
    file = vector_file_name(name)
    return f"{prefix}/{file}" if prefix else file


def vector_file_name(name: uuid.UUID) -> str:
    """The protocol's name of the file of deletion vectors with the id ``name``."""
    return f"deletion_vector_{name}.bin"


def is_vector_file(name: str) -> bool:
    """Whether a file of that ``name`` holds deletion vectors."""
    return _VECTOR_FILE.fullmatch(name) is not None


def z85_encode(content: bytes) -> str:
    """The Z85 text of ``content``, which is padded with zeros to a multiple of four bytes."""
    padded = content + b"\0" * (-len(content) % 4)
    return base64.b85encode(padded).translate(_TO_Z85).decode("ascii")


def z85_length(content: bytes) -> int:
    """How many characters the Z85 text of ``content`` has."""
    return -(-len(content) // 4) * 5


def z85_decode(text: str) -> bytes:
    """The bytes that a Z85 ``text`` encodes."""
    return base64.b85decode(text.encode("ascii").translate(_FROM_Z85))
