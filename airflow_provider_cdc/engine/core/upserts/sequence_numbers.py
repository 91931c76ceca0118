"""Sequence numbers of changes: which texts are valid, and how they compare.

BigQuery CDC: a sequence number has one to four sections, each an unsigned hexadecimal number of up
to 16 digits. The first section that differs decides. A missing section sorts before any other.
"""

from __future__ import annotations

from ..names import quote, spark_literal
from .definition import CHANGE_SEQUENCE_NUMBER

# The pattern has no backslash, because sessions read a backslash in two ways.
_PATTERN = "^[0-9A-Fa-f]{1,16}(/[0-9A-Fa-f]{1,16}){0,3}"


def padded_sequence() -> str:
    """The sequence number as text that sorts like the numbers, as SQL. The text is empty if there
    is no number.
    """
    number = quote(CHANGE_SEQUENCE_NUMBER)
    sections = f"transform(split(upper({number}), '/'), section -> lpad(section, 16, '0'))"
    return f"coalesce(array_join({sections}, ''), '')"


def is_sequence_number() -> str:
    """Whether the given text is a sequence number, as SQL. NULL: no number is given."""
    number = f"regexp_extract({CHANGE_SEQUENCE_NUMBER}, {spark_literal(_PATTERN)}, 0)"
    # The pattern returns an empty text if the given text is not a number. The given text may be
    # empty too.
    return f"{number} <> '' AND {number} = {CHANGE_SEQUENCE_NUMBER}"
