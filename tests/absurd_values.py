"""Values that a caller may pass by mistake, and what must be true after each of them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

HUGE = 10**40
ABSURD: tuple[Any, ...] = (
    None,
    "",
    " ",
    5,
    -1,
    0,
    HUGE,
    True,
    math.nan,
    -math.inf,
    "s",
    "good",
    "no such thing",
    "10 minutes",
    "PT10M",
    "INTERVAL 10 MINUTE",
    "P9999999D",
    "ünïcode ß",
    "`quoted`",
    "a'b\"c\\d${e}",
    "\x00",
    "\ud800",
    "x" * 100_000,
    b"bytes",
    [],
    ["s"],
    [1, 2],
    ["\ud800"],
    [None],
    ("a", "b"),
    {"a": "b"},
    {1: 2},
    {"version": HUGE},
    {"a"},
    object(),
    len,
    timedelta(minutes=10),
    timedelta(seconds=-1),
    timedelta.max,
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1),
)

FEW_ABSURD: tuple[Any, ...] = (
    None,
    "",
    5,
    -1,
    HUGE,
    True,
    math.nan,
    "10 minutes",
    "a'b\"c\\d`${e} ünï",
    "\ud800",
    "x" * 300,
    b"bytes",
    [],
    [1, 2],
    ["a"],
    {"a": "b"},
    object(),
    timedelta.max,
)
"""One value of each kind, for callers that take long."""


def absurd_values() -> st.SearchStrategy[Any]:
    """One of the values above, or another value of the same kind."""
    return st.one_of(
        st.sampled_from(ABSURD),
        st.text(max_size=20),
        st.integers(),
        st.floats(),
        st.timedeltas(),
        st.lists(st.one_of(st.text(max_size=5), st.integers()), max_size=3),
    )
