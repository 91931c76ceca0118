"""Deletion vectors: reading their bytes, and making inline ones.

The format is that of the Delta protocol, section "Deletion Vectors".
A vector is a 64-bit roaring bitmap of row positions behind a magic number; inline ones are
written in Z85.
"""

from __future__ import annotations

import base64
import struct
import uuid

from pyroaring import BitMap64

from .log_actions import DeletionVector

MAGIC = 1681511377
_UUID_CHARACTERS = 20

# Z85 and Python's base 85 differ in nothing but the alphabet.
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85 = bytes.maketrans(_B85, _Z85)
_FROM_Z85 = bytes.maketrans(_Z85, _B85)


def positions(content: bytes) -> BitMap64:
    """The deleted positions in the serialised bitmap ``content``.

    :raises ValueError: it does not start with the magic number of a portable bitmap
    """
    (magic,) = struct.unpack_from("<I", content)
    if magic != MAGIC:
        raise ValueError(f"deletion vector: expected magic {MAGIC}, found {magic}")
    return BitMap64.deserialize(content[4:])


def framed(content: bytes, offset: int) -> bytes:
    """The serialised bitmap that stands at ``offset`` of a deletion-vector file: its length as a
    big-endian integer, then the bitmap.
    """
    (length,) = struct.unpack_from(">i", content, offset)
    start = offset + 4
    return content[start : start + length]


def inline_bytes(vector: DeletionVector) -> bytes:
    """The serialised bitmap of an inline ``vector``."""
    return z85_decode(vector.path_or_inline)[: vector.size_bytes]


def inline(deleted: BitMap64) -> DeletionVector | None:
    """An inline vector that deletes exactly ``deleted``; ``None`` when that is nothing."""
    if not deleted:
        return None
    content = struct.pack("<I", MAGIC) + deleted.serialize()
    return DeletionVector("i", z85_encode(content), len(content), len(deleted))


def all_but(kept: BitMap64, record_count: int) -> BitMap64:
    """Every position of a file of ``record_count`` rows that is not in ``kept``."""
    everything = BitMap64(range(0))
    everything.add_range(0, record_count)
    rest = everything - kept
    rest.run_optimize()
    return rest


def relative_path(vector: DeletionVector) -> str:
    """The path, relative to the table, of the file behind a ``u`` vector."""
    prefix = vector.path_or_inline[:-_UUID_CHARACTERS]
    name = uuid.UUID(bytes=z85_decode(vector.path_or_inline[-_UUID_CHARACTERS:]))
    file = f"deletion_vector_{name}.bin"
    return f"{prefix}/{file}" if prefix else file


def z85_encode(content: bytes) -> str:
    """Z85 text of ``content``, which is padded with zeros to a multiple of four bytes."""
    padded = content + b"\0" * (-len(content) % 4)
    return base64.b85encode(padded).translate(_TO_Z85).decode("ascii")


def z85_decode(text: str) -> bytes:
    """The bytes behind Z85 ``text``."""
    return base64.b85decode(text.encode("ascii").translate(_FROM_Z85))
