"""Random views over three small tables, and random writes to these tables."""

from __future__ import annotations

from hypothesis import strategies as st

TABLES = ("a", "b", "c")
KEYS = st.one_of(st.none(), st.integers(0, 4))
VALUES = st.one_of(st.none(), st.integers(0, 3))
_CONDITIONS = st.sampled_from(["", "WHERE k <> 1", "WHERE v IS NULL OR v < 2", "WHERE k + v > 2"])
_TABLE = st.sampled_from(TABLES)


@st.composite
def _relation(draw: st.DrawFn, depth: int) -> str:
    """A relation for a FROM clause, with the columns k and v."""
    kinds = ["table", "table", "view"] + (["select", "union", "join"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "table":
            return f"{{{draw(_TABLE)}}}"
        case "view":
            return "nested"
        case "union":
            return f"(\n{draw(_union(depth - 1))}\n)"
        case "join":
            return f"(\n{draw(_join(depth - 1))}\n)"
        case _:
            return f"(\n{draw(_select(depth - 1))}\n)"


@st.composite
def _select(draw: st.DrawFn, depth: int) -> str:
    columns = draw(st.sampled_from(["*", "k, v", "v AS k, k AS v", "k, coalesce(v, -1) AS v"]))
    return f"SELECT {columns} FROM {draw(_relation(depth))} AS one {draw(_CONDITIONS)}"


@st.composite
def _union(draw: st.DrawFn, depth: int) -> str:
    branches = draw(st.lists(_select(depth), min_size=2, max_size=3))
    return "\nUNION ALL\n".join(branches)


@st.composite
def _join(draw: st.DrawFn, depth: int) -> str:
    left, right = draw(_relation(depth)), draw(_relation(depth))
    columns = draw(st.sampled_from(["l.k, r.v", "r.k AS k, l.v AS v", "l.k + r.k AS k, l.v AS v"]))
    how = draw(
        st.sampled_from(
            ["JOIN {} ON l.k = r.k", "CROSS JOIN {} WHERE l.k < r.k", ", {} WHERE l.v = r.k"]
        )
    )
    return f"SELECT {columns} FROM {left} AS l {how.format(f'{right} AS r')}"


VIEWS = st.one_of(_select(1), _union(1), _join(1), _join(1))
NESTED = st.one_of(
    st.just("SELECT k, v FROM {a} WHERE v IS NOT NULL"),
    st.just("SELECT k, v FROM {b} UNION ALL SELECT v, k FROM {c}"),
    st.just("SELECT x.k, y.v FROM {a} x JOIN {c} y USING (k)"),
)


def _sql(value: int | None) -> str:
    return "NULL" if value is None else str(value)


@st.composite
def _insert(draw: st.DrawFn) -> str:
    rows = draw(st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3))
    listed = ", ".join(f"({_sql(k)}, {_sql(v)})" for k, v in rows)
    return f"INSERT INTO {{{draw(_TABLE)}}} VALUES {listed}"


@st.composite
def _change(draw: st.DrawFn) -> str:
    table, key = draw(_TABLE), draw(st.integers(0, 4))
    statement = draw(
        st.sampled_from(
            [
                "UPDATE {{{t}}} SET v = {v} WHERE k = {k}",
                "UPDATE {{{t}}} SET k = {v} WHERE k <= {k}",
                "DELETE FROM {{{t}}} WHERE k = {k}",
                "OPTIMIZE {{{t}}}",
            ]
        )
    )
    return statement.format(t=table, k=key, v=_sql(draw(VALUES)))


WRITES = st.lists(st.one_of(_insert(), _change()), min_size=1, max_size=4)
