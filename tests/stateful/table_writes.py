"""The statements by which the stream machine writes, and how Hypothesis draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from row_model import Row


@dataclass(frozen=True)
class Where:
    """The rows whose key leaves ``rest`` when divided by ``divisor``."""

    divisor: int
    rest: int

    def __str__(self) -> str:
        return f"k % {self.divisor} = {self.rest}"

    def __call__(self, row: Row) -> bool:
        return bool(row["k"] % self.divisor == self.rest)


@dataclass(frozen=True)
class Insert:
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Overwrite:
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Update:
    where: Where
    column: str
    value: Any


@dataclass(frozen=True)
class UpdateNewestColumn:
    where: Where
    value: int | None


@dataclass(frozen=True)
class Delete:
    where: Where


@dataclass(frozen=True)
class Merge:
    updated: Where
    deleted: Where
    value: int | None
    rows: tuple[Row, ...]


VALUES = {
    "p": st.sampled_from([0, 1, None]),
    "v": st.sampled_from([0, 1, 2, None]),
    "s": st.sampled_from(["a", "ä", "", None]),
}
ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=4).map(tuple)
WHERE = st.integers(1, 4).flatmap(lambda n: st.builds(Where, st.just(n), st.integers(0, n - 1)))
UPDATES = st.sampled_from(sorted(VALUES)).flatmap(
    lambda column: st.builds(Update, WHERE, st.just(column), VALUES[column])
)
WRITES = st.one_of(
    st.builds(Insert, ROWS),
    st.builds(Insert, ROWS),
    UPDATES,
    UPDATES,
    st.builds(Delete, WHERE),
    st.builds(Merge, WHERE, WHERE, VALUES["v"], ROWS),
    st.builds(UpdateNewestColumn, WHERE, VALUES["v"]),
    st.builds(Overwrite, ROWS),
)
