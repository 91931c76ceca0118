"""Ranges of the hashed key space of a change stream."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

BUCKETS = 4096
"""How many buckets the hashes of keys are cut into. No partition is smaller than one."""

_HASH_BITS = 64
# A bucket is what is left of a hash, counted from the least one, after this shift.
LEAST_HASH = -(1 << _HASH_BITS - 1)
BUCKET_SHIFT = _HASH_BITS - (BUCKETS.bit_length() - 1)


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    """The buckets from ``low`` up to ``high``, without ``high``.

    :raises ValueError: the range is empty or outside the key space
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= BUCKETS:
            raise ValueError(f"expected 0 <= low < high <= {BUCKETS}, found {self}")

    @property
    def size(self) -> int:
        """The number of buckets."""
        return self.high - self.low

    def __contains__(self, bucket: int) -> bool:
        return self.low <= bucket < self.high


def bucket_of(key_hash: int) -> int:
    """The bucket of a key.

    :param key_hash: its hash, a signed number of 64 bits
    """
    return (key_hash - LEAST_HASH) >> BUCKET_SHIFT


def equal_ranges(count: int) -> tuple[KeyRange, ...]:
    """The whole key space in ``count`` ranges of nearly equal size.

    :param count: 1 to :data:`BUCKETS`
    """
    bounds = [number * BUCKETS // count for number in range(count + 1)]
    return tuple(KeyRange(*pair) for pair in pairwise(bounds))
