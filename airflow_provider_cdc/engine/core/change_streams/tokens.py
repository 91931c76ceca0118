"""Partition tokens: what a reader passes to read a partition.

Spanner: a token is opaque, and names one partition of one change stream. Here it holds all of the
partition, and a digest that only the stream can make. So the same partition always has the same
token, and no state is read to check a token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from dataclasses import dataclass

from ..errors import InvalidPartitionToken
from .key_ranges import KeyRange
from .layout import Partition

_FORMAT = 1
# The format, the id of the stream, the step of the layout, both ends of the keys, the start.
_FIELDS = struct.Struct(">B16sIHHq")
_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class TokenKey:
    """What makes and checks the tokens of one change stream.

    :param subject: the change stream, for messages
    :param stream_id: its id, 32 hexadecimal digits
    :param secret: what others do not know; at most 64 bytes
    """

    subject: str
    stream_id: str
    secret: bytes

    def token(self, partition: Partition) -> str:
        """The token of a partition."""
        keys = partition.keys
        fields = _FIELDS.pack(
            _FORMAT,
            bytes.fromhex(self.stream_id),
            partition.sequence,
            keys.low,
            keys.high,
            partition.start,
        )
        return base64.urlsafe_b64encode(fields + self._digest(fields)).decode().rstrip("=")

    def partition(self, token: str) -> Partition:
        """The partition that a token names.

        :raises InvalidPartitionToken: the text is not a token, was edited, or is of another stream
        """
        content = _decoded(token)
        if content is None or len(content) != _FIELDS.size + _DIGEST_BYTES:
            raise self._invalid("it is not a partition token")
        fields, digest = content[: _FIELDS.size], content[_FIELDS.size :]
        version, stream_id, sequence, low, high, start = _FIELDS.unpack(fields)
        if version != _FORMAT:
            raise self._invalid(f"it has the format {version}, and {_FORMAT} is known")
        if stream_id.hex() != self.stream_id:
            raise self._invalid("it is a token of another change stream, or of an earlier one")
        if not hmac.compare_digest(digest, self._digest(fields)):
            raise self._invalid("it was edited")
        return Partition(start, sequence, KeyRange(low, high))

    def _digest(self, fields: bytes) -> bytes:
        return hashlib.blake2b(fields, digest_size=_DIGEST_BYTES, key=self.secret).digest()

    def _invalid(self, cause: str) -> InvalidPartitionToken:
        return InvalidPartitionToken(
            self.subject,
            "cannot be read by this partition token",
            cause=cause,
            fix="pass a token that a child partitions record of this change stream returned, or"
            " None to begin",
        )


def _decoded(token: str) -> bytes | None:
    try:
        content = base64.b64decode(
            token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
        )
    except (UnicodeEncodeError, binascii.Error):
        return None
    # A text with other unused bits or padding would be a second token of the same partition.
    is_canonical = base64.urlsafe_b64encode(content).decode().rstrip("=") == token
    return content if is_canonical else None
