"""Views as relations over tables: which are followed, which are refused, and the text that runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.errors import UnsupportedView
from airflow_provider_cdc.engine.core.views.expansion import expand
from airflow_provider_cdc.engine.core.views.relations import (
    Branch,
    Leaf,
    Relation,
    Renamed,
    Select,
    UnionAll,
    ViewDefinition,
    changed_meaning,
    count_of_variants,
    functions,
    leaves,
    select_text,
    union_text,
    variants,
)

HOME = ("spark_catalog", "default")


def view(
    text: str, name: str = "spark_catalog.default.v", namespace: tuple[str, ...] = HOME
) -> ViewDefinition:
    return ViewDefinition(tuple(name.split(".")), text, namespace, ("c",))


def among(
    views: Mapping[str, ViewDefinition],
) -> Callable[[tuple[str, ...]], ViewDefinition | None]:
    return lambda parts: views.get(".".join(parts).lower())


def query(text: str, views: Mapping[str, ViewDefinition] | None = None) -> Relation:
    return expand(view(text), among(views or {})).relation


def select(text: str) -> Select:
    found = query(text)
    assert isinstance(found, Select)
    return found


def tables(relation: Relation) -> list[str]:
    found = leaves(relation)
    assert [leaf.number for leaf in found] == sorted({leaf.number for leaf in found})
    return [".".join(leaf.parts).removeprefix("spark_catalog.default.") for leaf in found]


def running(found: Select) -> str:
    """The text of ``found`` over relations r0, r1, ..., with hidden columns h0, h1, ..."""
    numbers = range(len(found.items))
    return select_text(found, [f"r{n}" for n in numbers], [[f"h{n}"] for n in numbers])


def run_text(text: str) -> str:
    return running(select(text))


def chosen(relation: Relation) -> list[int]:
    """The branches that a variant chose, depth first."""
    match relation:
        case Branch():
            return [relation.index, *chosen(relation.relation)]
        case Renamed():
            return chosen(relation.relation)
        case Select():
            return [index for item in relation.items for index in chosen(item.relation)]
        case _:
            return []


# --- what is accepted, and the text that runs


@pytest.mark.parametrize(
    ("text", "read", "runs"),
    [
        ("SELECT * FROM t", ["t"], "SELECT * FROM `r0` AS `t`"),
        ("select a from t", ["t"], "select a, `t`.`h0` from `r0` AS `t`"),
        ("SELECT ALL a FROM t", ["t"], "SELECT ALL a, `t`.`h0` FROM `r0` AS `t`"),
        ("SELECT ALL * FROM t", ["t"], "SELECT ALL * FROM `r0` AS `t`"),
        ("SELECT a FROM s.t", ["spark_catalog.s.t"], "SELECT a, `t`.`h0` FROM `r0` AS `t`"),
        ("SELECT a FROM c.s.t", ["c.s.t"], "SELECT a, `t`.`h0` FROM `r0` AS `t`"),
        ("SELECT x.a FROM t x", ["t"], "SELECT x.a, `x`.`h0` FROM `r0` x"),
        ("SELECT x.a FROM t AS x", ["t"], "SELECT x.a, `x`.`h0` FROM `r0` AS x"),
        ("SELECT x.* FROM t As `x`", ["t"], "SELECT x.* FROM `r0` As `x`"),
        ("SELECT a AS b, c d FROM t", ["t"], "SELECT a AS b, c d, `t`.`h0` FROM `r0` AS `t`"),
        (
            "SELECT a FROM t WHERE t.a > 1 AND b IN (1, 2)",
            ["t"],
            "SELECT a, `t`.`h0` FROM `r0` AS `t` WHERE t.a > 1 AND b IN (1, 2)",
        ),
        (
            "SELECT `a``b` FROM `s x`.`t``y`",
            ["spark_catalog.s x.t`y"],
            "SELECT `a``b`, `t``y`.`h0` FROM `r0` AS `t``y`",
        ),
        (
            "SELECT * FROM delta.`/a b/c`",
            ["delta./a b/c"],
            "SELECT * FROM `r0` AS `/a b/c`",
        ),
        ("TABLE t", ["t"], "TABLE `r0`"),
        ("(SELECT a FROM t)", ["t"], "SELECT a, `t`.`h0` FROM `r0` AS `t`"),
        ("((SELECT a FROM (t)))", ["t"], "SELECT a, `t`.`h0` FROM (`r0` AS `t`)"),
        (
            "SELECT a.x, b.* FROM a JOIN b ON a.i = b.i",
            ["a", "b"],
            "SELECT a.x, b.*, `a`.`h0` FROM `r0` AS `a` JOIN `r1` AS `b` ON a.i = b.i",
        ),
        (
            "SELECT * FROM a INNER JOIN b USING (i, `j k`)",
            ["a", "b"],
            "SELECT * FROM `r0` AS `a` INNER JOIN `r1` AS `b` USING (i, `j k`)",
        ),
        (
            "SELECT * FROM a NATURAL JOIN b NATURAL INNER JOIN c",
            ["a", "b", "c"],
            "SELECT * FROM `r0` AS `a` NATURAL JOIN `r1` AS `b` NATURAL INNER JOIN `r2` AS `c`",
        ),
        (
            "SELECT 1 AS one FROM a, b x CROSS JOIN c WHERE a.i=x.i",
            ["a", "b", "c"],
            "SELECT 1 AS one, `a`.`h0`, `x`.`h1`, `c`.`h2`"
            " FROM `r0` AS `a`, `r1` x CROSS JOIN `r2` AS `c` WHERE a.i=x.i",
        ),
        (
            "SELECT l.a FROM t l JOIN t r ON l.p = r.i",
            ["t", "t"],
            "SELECT l.a, `l`.`h0`, `r`.`h1` FROM `r0` l JOIN `r1` r ON l.p = r.i",
        ),
        (
            "SELECT a FROM (x JOIN y ON x.i = y.i) JOIN (z) ON y.i = z.i",
            ["x", "y", "z"],
            "SELECT a, `x`.`h0`, `y`.`h1`, `z`.`h2`"
            " FROM (`r0` AS `x` JOIN `r1` AS `y` ON x.i = y.i) JOIN (`r2` AS `z`) ON y.i = z.i",
        ),
        (
            "SELECT * EXCEPT (a, b) FROM t, u",
            ["t", "u"],
            "SELECT * EXCEPT (a, b) FROM `r0` AS `t`, `r1` AS `u`",
        ),
        (
            "SELECT u.* EXCEPT (a), t.a FROM t, u",
            ["t", "u"],
            "SELECT u.* EXCEPT (a), t.a, `t`.`h0` FROM `r0` AS `t`, `r1` AS `u`",
        ),
        (
            "SELECT address.*, t.address.* FROM t",
            ["t"],
            "SELECT address.*, t.address.*, `t`.`h0` FROM `r0` AS `t`",
        ),
        (
            "SELECT a FROM (SELECT a FROM t) WHERE a = 1",
            ["t"],
            "SELECT a, `__cdc_item_1`.`h0` FROM `r0` AS `__cdc_item_1` WHERE a = 1",
        ),
        (
            "SELECT q.a FROM(SELECT a FROM t)q JOIN(TABLE u)AS w ON true",
            ["t", "u"],
            "SELECT q.a, `q`.`h0`, `w`.`h1` FROM`r0`q JOIN`r1`AS w ON true",
        ),
        (
            "SELECT * FROM ((SELECT a FROM t) q JOIN u ON true)",
            ["t", "u"],
            "SELECT * FROM (`r0` q JOIN `r1` AS `u` ON true)",
        ),
        (
            "SELECT * FROM ((SELECT a FROM t))",
            ["t"],
            "SELECT * FROM `r0` AS `__cdc_item_1`",
        ),
        (
            "SELECT /*+ BROADCAST(t) */ a FROM t",
            ["t"],
            "SELECT /*+ BROADCAST(t) */ a, `t`.`h0` FROM `r0` AS `t`",
        ),
        (
            "SELECT /*+ BROADCAST(t) */ * FROM t",
            ["t"],
            "SELECT /*+ BROADCAST(t) */ * FROM `r0` AS `t`",
        ),
        (
            "SELECT a -- , FROM x\nFROM t -- GROUP BY\nWHERE a = 1 -- the end",
            ["t"],
            "SELECT a, `t`.`h0` -- , FROM x\nFROM `r0` AS `t` -- GROUP BY\nWHERE a = 1",
        ),
        (
            "SELECT a/* LIMIT */FROM t/* x */WHERE/**/a='FROM u GROUP BY x'",
            ["t"],
            "SELECT a, `t`.`h0`/* LIMIT */FROM `r0` AS `t`/* x */WHERE/**/a='FROM u GROUP BY x'",
        ),
        (
            "SELECT a * 2, t.*, b*c FROM t",
            ["t"],
            "SELECT a * 2, t.*, b*c FROM `r0` AS `t`",
        ),
        (
            "SELECT s.t.a, SPARK_CATALOG.s.T.b.c, t.d FROM s.t WHERE `s`.t.a > t.b",
            ["spark_catalog.s.t"],
            "SELECT t.a, T.b.c, t.d, `t`.`h0` FROM `r0` AS `t` WHERE t.a > t.b",
        ),
        (
            "SELECT default.t.a, default.a FROM t, u AS default",
            ["t", "u"],
            "SELECT t.a, default.a, `t`.`h0`, `default`.`h1` FROM `r0` AS `t`, `r1` AS default",
        ),
        (
            "SELECT s.t.*, u.x FROM s.t JOIN s.u ON s.t.i = s.u.i",
            ["spark_catalog.s.t", "spark_catalog.s.u"],
            "SELECT t.*, u.x, `u`.`h1` FROM `r0` AS `t` JOIN `r1` AS `u` ON t.i = u.i",
        ),
        (
            "SELECT s.t.a FROM s.t AS s",
            ["spark_catalog.s.t"],
            "SELECT s.t.a, `s`.`h0` FROM `r0` AS s",
        ),
    ],
)
def test_supported_select_reads_its_tables_and_adds_hidden_columns(
    text: str, read: list[str], runs: str
) -> None:
    found = select(text)
    assert (tables(found), running(found)) == (read, runs)


@pytest.mark.parametrize(
    "expression",
    [
        "a[0].b, m['LIMIT'], s.f.g, x::decimal(10, 2), cast(x AS struct<a: int, b: decimal(3,2)>)",
        "transform(xs, x -> x + 1), aggregate(xs, 0, (x, y) -> x + y), exists(xs, x -> x > 1)",
        "filter(xs, x -> x > 1), left(a, 1), right(a, 1), if(a, b, c), array_max(xs)",
        "CASE WHEN a THEN b ELSE c END, CASE a WHEN 1 THEN 2 END",
        "a LIKE ANY ('x', 'y'), b NOT LIKE SOME ('x'), c LIKE ALL ('x'), d RLIKE 'e'",
        "a IS DISTINCT FROM b, a IS NOT DISTINCT FROM b AS c, a <=> b, NOT a, !b",
        "extract(YEAR FROM d), trim(BOTH 'x' FROM y), substring(x FROM 1 FOR 2)",
        "position('a' IN b), overlay(a PLACING 'b' FROM 3), timestampadd(DAY, 1, d)",
        "INTERVAL '1' DAY, INTERVAL 1 DAY 2 HOURS, DATE '2020-01-01', TIMESTAMP'2020-01-01 00:00'",
        "1.5L, 3Y, .5, 1e5, X'1F', r'\\', \"now or never\", 'it''s', 'a' 'b'",
        "'8:30 is early', TIME '08:30:00', '12:30 PM', 'T8 and more'",
        "a:b.c, to_json(named_struct('a', a)), (a, b), struct(a, b AS c)",
        "offset, limit, window, partition, count, t.order, t.user, t.current_date, version",
        "a AS limit, b AS `from`, c AS user, d AS group",
        "unix_timestamp(a), from_utc_timestamp(a, 'UTC'), date_add(a, 1), a DIV 2, a % 2",
        "`upper`(a), Upper (b), a || b, a COLLATE UTF8_LCASE, coalesce(limit, offset)",
        "a * limit, - offset, offset + window, (limit)",
    ],
)
def test_expressions_of_one_row_are_supported(expression: str) -> None:
    first = f"SELECT {expression} FROM t"
    assert run_text(first) == f"SELECT {expression}, `t`.`h0` FROM `r0` AS `t`"


def test_clause_keywords_are_columns_if_an_operand_is_expected() -> None:
    text = "SELECT offset FROM t JOIN u ON offset = limit WHERE window > 1 AND offset < 2 OR limit"
    assert tables(query(text)) == ["t", "u"]


def test_select_text_without_hidden_columns_is_the_users_own_select_list() -> None:
    found = select("SELECT a.x FROM a, s.b")
    assert select_text(found, ["r``", "q.r"]) == ("SELECT a.x FROM `r````` AS `a`, `q.r` AS `b`")


def test_select_text_adds_several_hidden_columns_in_the_order_of_the_items() -> None:
    found = select("SELECT b.*, a.x FROM a, b, c")
    assert select_text(found, ["p", "q", "r"], [["h`1", "h2"], ["h3"], []]) == (
        "SELECT b.*, a.x, `a`.`h``1`, `a`.`h2` FROM `p` AS `a`, `q` AS `b`, `r` AS `c`"
    )


def test_functions_are_all_called_names_in_lower_case() -> None:
    text = """
        WITH q AS (SELECT F(a) AS a FROM t)
        SELECT `G`(a), 'h(x)' FROM q JOIN (SELECT i (a) FROM u UNION ALL SELECT j(1) FROM u)
        ON k(l) WHERE CAST(a AS INT) IN (1) AND exists(m, x -> n(x))
    """
    assert functions(query(text)) == {"f", "g", "i", "j", "k", "n", "cast", "exists"}


# --- CTEs


def test_cte_is_read_like_a_subquery_under_its_own_name() -> None:
    found = select("WITH q AS (SELECT a FROM t), p (SELECT * FROM q) SELECT p.a FROM p")
    assert running(found) == "SELECT p.a, `p`.`h0` FROM `r0` AS `p`"
    (item,) = found.items
    assert isinstance(item.relation, Select)
    assert running(item.relation) == "SELECT * FROM `r0` AS `q`"
    assert tables(found) == ["t"]


def test_cte_that_is_referenced_twice_gives_each_reference_its_own_leaves() -> None:
    found = select("WITH q AS (SELECT t.* FROM t, u) SELECT a.* FROM Q a JOIN q b ON a.i = b.p")
    assert tables(found) == ["t", "u", "t", "u"]
    assert [leaf.number for leaf in leaves(found.items[1].relation)] == [2, 3]


def test_cte_shadows_only_a_table_of_one_part() -> None:
    text = "WITH T AS (SELECT * FROM t) SELECT 1 FROM t x, default.t y, (SELECT * FROM `t`) z"
    found = select(text)
    assert tables(found) == ["t", "t", "t"]
    kinds = [type(item.relation) for item in found.items]
    assert kinds == [Select, Leaf, Select]


def test_cte_sees_earlier_ctes_and_inner_ctes_shadow_outer_ones() -> None:
    text = """
        WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a)
        SELECT 1 FROM b AS x, (WITH b AS (SELECT * FROM u) SELECT * FROM b) AS y, b AS z
    """
    assert tables(query(text)) == ["b", "u", "b"]


def test_cte_of_a_union_is_visible_only_within_its_parentheses() -> None:
    text = "(WITH q AS (TABLE t) SELECT * FROM q UNION ALL TABLE q) UNION ALL TABLE q"
    assert tables(query(text)) == ["t", "t", "q"]


def test_cte_that_is_not_read_has_no_leaves_but_is_checked() -> None:
    assert tables(query("WITH q AS (SELECT * FROM t) SELECT * FROM u")) == ["u"]
    with pytest.raises(UnsupportedView, match="LIMIT"):
        query("WITH q AS (SELECT * FROM t LIMIT 1) SELECT * FROM u")


# --- unions


def test_union_all_is_one_node_of_all_its_branches() -> None:
    found = query("SELECT a FROM t UNION ALL (SELECT b FROM u) UNION ALL TABLE w")
    assert isinstance(found, UnionAll)
    assert len(found.branches) == 3
    assert tables(found) == ["t", "u", "w"]


def test_union_all_in_parentheses_stays_a_node_of_its_own() -> None:
    found = query("TABLE t UNION ALL (TABLE u UNION ALL TABLE w)")
    assert isinstance(found, UnionAll)
    assert isinstance(found.branches[1], UnionAll)
    assert [chosen(variant) for variant in variants(found)] == [[0], [1, 0], [1, 1]]
    assert [tables(variant) for variant in variants(found)] == [["t"], ["u"], ["w"]]


def test_variant_knows_its_union_and_the_place_of_its_branch() -> None:
    found = query("TABLE t UNION ALL TABLE u")
    first, second = variants(found)
    assert isinstance(first, Branch)
    assert isinstance(second, Branch)
    assert (first.index, second.index) == (0, 1)
    assert first.of is found
    assert leaves(second) == (Leaf(1, (*HOME, "u")),)


def test_variants_of_nested_unions_are_all_combinations_in_order() -> None:
    text = """
        SELECT x.* FROM (TABLE a UNION ALL TABLE b) x
        JOIN c ON c.i = x.i
        JOIN (SELECT * FROM (TABLE d UNION ALL TABLE e UNION ALL TABLE f) WHERE i > 1) y USING (i)
    """
    found = query(text)
    assert count_of_variants(found) == 6
    assert [chosen(variant) for variant in variants(found)] == [
        [0, 0],
        [0, 1],
        [0, 2],
        [1, 0],
        [1, 1],
        [1, 2],
    ]
    assert [tables(variant) for variant in variants(found)][:2] == [
        ["a", "c", "d"],
        ["a", "c", "e"],
    ]
    assert [leaf.number for leaf in leaves(variants(found)[-1])] == [1, 2, 5]


def test_variants_of_a_query_without_union_are_itself() -> None:
    found = query("SELECT * FROM a, (SELECT * FROM b) x")
    assert variants(found) == (found,)


def test_variants_of_a_variant_are_itself() -> None:
    variant = variants(query("TABLE t UNION ALL TABLE u"))[1]
    assert variants(variant) == (variant,)


def test_union_text_asks_spark_for_the_columns_of_a_union() -> None:
    assert union_text(["a", "b`"]) == "SELECT * FROM `a`\nUNION ALL\nSELECT * FROM `b```"


def test_union_of_too_many_combinations_is_refused() -> None:
    union = "(" + " UNION ALL ".join(["TABLE t"] * 11) + ")"
    with pytest.raises(UnsupportedView, match=r"too many 1331 combinations.*maximum is 1000"):
        query(f"SELECT 1 FROM {union} a, {union} b, {union} c")


# --- nested views


def test_nested_view_is_read_in_its_own_namespace_and_renamed() -> None:
    inner = ViewDefinition(("c", "s", "w"), "SELECT a FROM t, x.u", ("c", "s"), ("n",))
    found = query("SELECT s.w.n FROM c.s.w JOIN t ON true", {"c.s.w": inner})
    assert isinstance(found, Select)
    assert (
        running(found) == "SELECT w.n, `w`.`h0`, `t`.`h1` FROM `r0` AS `w` JOIN `r1` AS `t` ON true"
    )
    nested = found.items[0].relation
    assert isinstance(nested, Renamed)
    assert (nested.parts, nested.columns) == (("c", "s", "w"), ("n",))
    assert tables(found) == ["c.s.t", "c.x.u", "t"]


def test_root_is_the_view_itself() -> None:
    definition = view("SELECT a FROM t")
    found = expand(definition, among({}))
    assert (found.parts, found.columns) == (definition.parts, definition.columns)


def test_nested_view_does_not_see_the_ctes_around_it() -> None:
    inner = view("SELECT * FROM q", "spark_catalog.default.w")
    found = query(
        "WITH q AS (SELECT * FROM t) SELECT * FROM w, q", {"spark_catalog.default.w": inner}
    )
    assert tables(found) == ["q", "t"]


def test_nested_views_with_unions_multiply_the_variants() -> None:
    inner = view("TABLE a UNION ALL TABLE b", "spark_catalog.default.w")
    found = query("SELECT x.* FROM w x, W y", {"spark_catalog.default.w": inner})
    assert tables(found) == ["a", "b", "a", "b"]
    assert [tables(each) for each in variants(found)] == [
        ["a", "a"],
        ["a", "b"],
        ["b", "a"],
        ["b", "b"],
    ]


def test_nested_view_is_refused_by_its_name_and_position_in_its_own_text() -> None:
    inner = view("SELECT a\nFROM t\n  GROUP BY a", "spark_catalog.default.w")
    with pytest.raises(UnsupportedView) as raised:
        query("SELECT * FROM w", {"spark_catalog.default.w": inner})
    assert str(raised.value).startswith(
        "view spark_catalog.default.w, which view spark_catalog.default.v reads: "
        "has GROUP BY at line 3, column 3, near 'GROUP BY a'."
    )


def test_view_that_is_nested_in_itself_is_refused() -> None:
    views = {
        "spark_catalog.default.w": view("SELECT * FROM V", "spark_catalog.default.w"),
        "spark_catalog.default.v": view("SELECT * FROM w", "spark_catalog.DEFAULT.v"),
    }
    with pytest.raises(UnsupportedView, match=r"nested in itself.*v reads .*w reads .*v"):
        query("SELECT * FROM w", views)


def test_one_view_may_be_read_twice() -> None:
    views = {
        "spark_catalog.default.w": view("SELECT * FROM t", "spark_catalog.default.w"),
        "spark_catalog.default.x": view("SELECT * FROM w", "spark_catalog.default.x"),
    }
    assert tables(query("SELECT w.* FROM w, x", views)) == ["t", "t"]


@pytest.mark.parametrize(("depth", "message"), [(100, ""), (101, "too many nested views")])
def test_views_are_nested_up_to_a_hundred_deep(depth: int, message: str) -> None:
    names = [f"spark_catalog.default.v{number}" for number in range(depth)]
    views = {name: view(f"SELECT * FROM v{number + 1}", name) for number, name in enumerate(names)}
    if message:
        with pytest.raises(UnsupportedView, match=message):
            query("SELECT * FROM v0", views)
    else:
        assert tables(query("SELECT * FROM v0", views)) == [f"v{depth}"]


def test_views_that_double_their_tables_are_refused_before_memory_fills() -> None:
    ctes = ["q0 AS (SELECT 1 AS a FROM t)"]
    ctes += [f"q{n} AS (SELECT 1 AS a FROM q{n - 1} x, q{n - 1} y)" for n in range(1, 60)]
    with pytest.raises(UnsupportedView, match="too many table references"):
        query(f"WITH {', '.join(ctes)} SELECT * FROM q59")


def test_resolve_is_asked_for_qualified_names_and_not_for_ctes_and_paths() -> None:
    asked: list[tuple[str, ...]] = []

    def resolve(parts: tuple[str, ...]) -> None:
        asked.append(parts)

    text = "WITH q AS (TABLE T) SELECT 1 FROM q, `S`.u, c.s.w, delta.`/x`, delta.`s3://b/x` AS y"
    expand(view(text), resolve)
    assert asked == [(*HOME, "T"), ("spark_catalog", "S", "u"), ("c", "s", "w")]


# --- what is refused, by name and position

REFUSED = [
    # clauses: the text, with the offending word after ^
    ("SELECT a FROM t ^GROUP BY a", "GROUP BY"),
    ("SELECT a FROM t WHERE a > 1 ^group  by a", "GROUP BY"),
    ("SELECT a FROM t ^GROUP /* x */ BY a", "GROUP BY"),
    ("SELECT a FROM t ^HAVING a > 1", "HAVING"),
    ("SELECT a FROM t ^QUALIFY a > 1", "QUALIFY"),
    ("SELECT a FROM t ^WINDOW w AS (ORDER BY a)", "WINDOW"),
    ("SELECT a FROM t ^LIMIT 5", "LIMIT"),
    ("SELECT a FROM t WHERE a = 1 ^LIMIT 5", "LIMIT"),
    ("SELECT a FROM t WHERE a = 'x' ^LIMIT ALL", "LIMIT"),
    ("(SELECT a FROM t) ^LIMIT 5", "LIMIT"),
    ("SELECT a FROM t ^OFFSET 5", "OFFSET"),
    ("SELECT a FROM t ^FETCH FIRST 5 ROWS ONLY", "FETCH"),
    ("SELECT ^TOP 5 a FROM t", "TOP"),
    ("SELECT ^DISTINCT a FROM t", "DISTINCT"),
    ("SELECT a FROM t ^ORDER BY a", "ORDER BY"),
    ("SELECT a FROM t WHERE (a = 1) ^Order\nBy a", "ORDER BY"),
    ("SELECT a FROM t ^SORT BY a", "SORT BY"),
    ("SELECT a FROM t ^CLUSTER BY a", "CLUSTER BY"),
    ("SELECT a FROM t ^DISTRIBUTE BY a", "DISTRIBUTE BY"),
    ("SELECT a FROM t UNION ALL TABLE u ^ORDER BY a", "ORDER BY"),
    ("SELECT * FROM (SELECT a FROM t ^ORDER BY a)", "ORDER BY"),
    ("WITH q AS (SELECT a FROM t ^LIMIT 1) SELECT * FROM q", "LIMIT"),
    # joins
    ("SELECT a FROM t ^LEFT JOIN u ON true", "a LEFT JOIN"),
    ("SELECT a FROM t x ^LEFT OUTER JOIN u ON true", "a LEFT JOIN"),
    ("SELECT a FROM t JOIN u ON left(a, 1) = b ^left JOIN w ON true", "a LEFT JOIN"),
    ("SELECT a FROM t ^RIGHT JOIN u ON true", "a RIGHT JOIN"),
    ("SELECT a FROM t ^FULL OUTER JOIN u ON true", "a FULL JOIN"),
    ("SELECT a FROM t NATURAL ^LEFT JOIN u", "a LEFT JOIN"),
    ("SELECT a FROM t ^LEFT SEMI JOIN u ON true", "a LEFT JOIN"),
    ("SELECT a FROM t ^SEMI JOIN u ON true", "a SEMI JOIN"),
    ("SELECT a FROM t ^LEFT ANTI JOIN u ON true", "a LEFT JOIN"),
    ("SELECT a FROM t ^ANTI JOIN u ON true", "an ANTI JOIN"),
    ("SELECT a FROM t ^ASOF JOIN u ON true", "an ASOF JOIN"),
    ("SELECT a FROM t JOIN u ^APPROX NEAREST 1 BY DISTANCE a", "a NEAREST BY join"),
    ("SELECT a FROM t JOIN u JOIN w ON u.i = w.i ^ON t.i = u.i", "an unexpected ON"),
    ("SELECT a FROM (t JOIN u ON true) ^AS x", "an alias of a join"),
    ("SELECT a FROM (t JOIN u ON true) ^x", "an alias of a join"),
    # set operations
    ("SELECT a FROM t ^UNION SELECT a FROM u", "UNION, which removes duplicates"),
    ("TABLE t ^UNION DISTINCT TABLE u", "UNION, which removes duplicates"),
    ("TABLE t UNION ALL TABLE u ^UNION TABLE w", "UNION, which removes duplicates"),
    ("SELECT a FROM t ^INTERSECT SELECT a FROM u", "INTERSECT"),
    ("SELECT a FROM t ^EXCEPT SELECT a FROM u", "EXCEPT"),
    ("SELECT a FROM t WHERE a = 1 ^MINUS SELECT a FROM u", "MINUS"),
    ("SELECT * FROM (TABLE t ^EXCEPT ALL TABLE u)", "EXCEPT"),
    ("SELECT * FROM t UNION ALL ^BY NAME SELECT * FROM u", "unknown syntax"),
    # relations
    ("SELECT a FROM t ^LATERAL VIEW explode(b) x AS y", "LATERAL"),
    ("SELECT a FROM t, ^LATERAL (SELECT 1)", "LATERAL"),
    ("SELECT a FROM t JOIN ^LATERAL (SELECT t.a)", "LATERAL"),
    ("SELECT a FROM ^range(5)", "a table-valued function"),
    ("SELECT a FROM t, ^explode(t.b)", "a table-valued function"),
    ("SELECT a FROM ^c.s.f(1)", "a table-valued function"),
    ("SELECT a FROM ^TABLE(f(1))", "a table-valued function"),
    ("SELECT a FROM ^IDENTIFIER('t')", "an IDENTIFIER clause"),
    ("SELECT a FROM ^STREAM t", "a streaming table"),
    ("SELECT a FROM ^VALUES (1), (2)", "VALUES"),
    ("SELECT a FROM (^VALUES (1))", "VALUES"),
    ("^VALUES (1)", "VALUES"),
    ("SELECT a FROM t ^PIVOT (max(a) FOR b IN (1))", "PIVOT"),
    ("SELECT a FROM t ^UNPIVOT (a FOR b IN (c))", "UNPIVOT"),
    ("SELECT a FROM t ^TABLESAMPLE (5 PERCENT)", "TABLESAMPLE"),
    ("SELECT a FROM (SELECT a FROM t) ^TABLESAMPLE (5 ROWS)", "TABLESAMPLE"),
    ("SELECT a FROM t ^VERSION AS OF 1", "time travel"),
    ("SELECT a FROM t ^timestamp AS OF '2020-01-01'", "time travel"),
    ("SELECT a FROM t ^FOR SYSTEM_VERSION AS OF 1", "time travel"),
    ("SELECT a FROM t ^SYSTEM_TIME AS OF '2020-01-01'", "time travel"),
    ("SELECT a FROM ^t@v1", "time travel"),
    ("SELECT a FROM delta.`/x`, ^delta.`/x@v1`", "time travel"),
    ("SELECT a FROM ^delta.`/x@20200101000000000`", "time travel"),
    ("SELECT a FROM ^parquet.`/x`", "files that are not a Delta table"),
    ("SELECT a FROM ^delta.`x/y`", "files that are not a Delta table"),
    ("SELECT a FROM ^a.b.c.d", "an invalid table name"),
    ("SELECT a FROM t ^WITH (x = 1)", "an unexpected WITH"),
    ("SELECT a FROM t ^CHANGES FROM VERSION 1", "CHANGES"),
    ("SELECT a FROM t ^WATERMARK a DELAY OF INTERVAL 1 DAY", "WATERMARK"),
    ("SELECT a FROM ^'t'", "unknown syntax"),
    ("SELECT a FROM (SELECT a FROM t) AS x^(b)", "column names after an alias"),
    ("SELECT a FROM t x^(b)", "column names after an alias"),
    ("WITH q^(a) AS (SELECT a FROM t) SELECT * FROM q", "column names after an alias"),
    ("WITH ^RECURSIVE q AS (SELECT a FROM t) SELECT * FROM q", "a recursive CTE"),
    ("WITH q AS (TABLE t), ^Q AS (TABLE u) SELECT * FROM q", "two CTEs of the same name"),
    ("WITH s AS (TABLE t), ^\u017f AS (TABLE u) SELECT * FROM s", "two CTEs of the same name"),
    ("WITH \u017f AS (TABLE t) SELECT * FROM ^s", "a name that Spark reads as that of a CTE"),
    ("SELECT a FROM s.t, ^u.T", "two relations named T"),
    ("SELECT a FROM t, ^t", "two relations named t"),
    # queries of other shapes
    ("^SELECT 1", "a SELECT without FROM"),
    ("TABLE t UNION ALL ^SELECT 1", "a SELECT without FROM"),
    ("^FROM t SELECT a", "a query that starts with FROM"),
    ("SELECT * FROM (^FROM t)", "a query that starts with FROM"),
    ("^FROM t |> WHERE a > 1", "a query that starts with FROM"),
    ("SELECT a FROM t ^|> LIMIT 5", "pipe syntax"),
    ("SELECT a ^WHERE a > 1", "an unexpected WHERE"),
    ("SELECT transform(a) ^USING 'cat' FROM t", "an unexpected USING"),
    ("SELECT a, ^FROM t", "an unexpected FROM"),
    ("SELECT a FROM t WHERE a = 1^; SELECT 2", "a semicolon"),
    ("^INSERT INTO t SELECT 1", "unknown syntax"),
    ("TABLE t ^x", "unknown syntax"),
    ("TABLE t ^WHERE a > 1", "an unexpected WHERE"),
    ("SELECT a FROM^", "unknown syntax"),
    # aggregates and window functions
    ("SELECT ^count(*) FROM t", "the aggregate count"),
    ("SELECT a, 1 + ^SUM (b) FROM t", "the aggregate sum"),
    ("SELECT ^`max`(b) FROM t", "the aggregate max"),
    ("SELECT ^vector_sum(b) FROM t", "the aggregate vector_sum"),
    ("SELECT ^any(b) FROM t", "the aggregate any"),
    ("SELECT ^first(b) IGNORE NULLS FROM t", "the aggregate first"),
    ("SELECT ^listagg(b) WITHIN GROUP (ORDER BY b) FROM t", "the aggregate listagg"),
    ("SELECT f(^DISTINCT b) FROM t", "an aggregate with DISTINCT"),
    ("SELECT f(b) ^FILTER (WHERE b > 1) FROM t", "an aggregate with FILTER"),
    ("SELECT f(b) ^WITHIN GROUP (ORDER BY b) FROM t", "an aggregate with WITHIN GROUP"),
    ("SELECT f(b) ^OVER (ORDER BY b) FROM t", "a window function"),
    ("SELECT f(b) ^over w FROM t", "a window function"),
    ("SELECT f(b) ^IGNORE NULLS OVER w FROM t", "a window function or an aggregate"),
    ("SELECT ^row_number() OVER (ORDER BY b) FROM t", "the window function row_number"),
    ("SELECT ^window(a, '1 day') FROM t", "the window function window"),
    # sub-queries outside of FROM
    ("SELECT (^SELECT 1) FROM t", "a sub-query outside of FROM"),
    ("SELECT a FROM t WHERE a IN (^SELECT b FROM u)", "a sub-query outside of FROM"),
    ("SELECT a FROM t WHERE EXISTS (^SELECT 1 FROM u)", "a sub-query outside of FROM"),
    ("SELECT a FROM t WHERE a > ((^SELECT 1))", "a sub-query outside of FROM"),
    ("SELECT a FROM t JOIN u ON a = (^WITH q AS (TABLE t) TABLE q)", "a sub-query outside"),
    ("SELECT a FROM t WHERE a IN (^TABLE u)", "a sub-query outside of FROM"),
    ("SELECT a FROM t WHERE a IN (^VALUES (1))", "a sub-query outside of FROM"),
    ("SELECT a FROM t WHERE a IN (^FROM u)", "a sub-query outside of FROM"),
    # generators, values that differ from query to query, values that only Spark knows
    ("SELECT ^explode(b) FROM t", "the generator explode"),
    ("SELECT ^stack(2, a, b) FROM t", "the generator stack"),
    ("SELECT ^json_tuple(a, 'b') FROM t", "the generator json_tuple"),
    ("SELECT f(a) AS ^(b, c) FROM t", "a generator with several names"),
    ("SELECT a FROM t WHERE ^rand() > 0.5", "the non-deterministic function rand"),
    ("SELECT ^Uuid() FROM t", "the non-deterministic function uuid"),
    ("SELECT ^CURRENT_DATE FROM t", "the non-deterministic function current_date"),
    ("SELECT ^current_date() FROM t", "the non-deterministic function current_date"),
    ("SELECT a FROM t WHERE a < ^current_timestamp", "the non-deterministic function current_t"),
    ("SELECT ^`current_user` FROM t", "the non-deterministic function current_user"),
    ("SELECT ^user AS a FROM t", "the non-deterministic function user"),
    ("SELECT ^unix_timestamp() FROM t", "the non-deterministic function unix_timestamp"),
    ("SELECT a FROM t WHERE a > DATE ^'today'", "a text that Spark may read as a relative time"),
    (
        "SELECT a FROM t WHERE a > TIMESTAMP ^'08:00:00'",
        "a text that Spark may read as a relative time",
    ),
    ("SELECT a FROM t WHERE a > ^'T8:30 UTC'", "a text that Spark may read as a relative time"),
    (
        "SELECT a FROM t WHERE a > TIMESTAMP ^' t8 '",
        "a text that Spark may read as a relative time",
    ),
    (
        "SELECT a FROM t WHERE a > ^'8:30:00.5+01:00'",
        "a text that Spark may read as a relative time",
    ),
    ("SELECT a FROM t WHERE a > ^' NOW utc '", "a text that Spark may read as a relative time"),
    ("SELECT ^_metadata.file_path FROM t", "the column _metadata"),
    ("SELECT t.^`_METADATA` FROM t", "the column _metadata"),
    ("SELECT s.^f(a) FROM t", "the function f of a schema"),
    ("SELECT c.s.^`f`(a) FROM t", "the function f of a schema"),
    ("SELECT ^? FROM t", "a parameter marker"),
    ("SELECT a FROM t WHERE a = ^:b", "a parameter marker"),
    ("SELECT ^$a FROM t", "a parameter marker"),
    ("SELECT ^IDENTIFIER('a') FROM t", "an IDENTIFIER clause"),
    # stars
    ("SELECT hash(^*) FROM t", "a star inside an expression"),
    ("SELECT struct(t.^*) FROM t", "a star inside an expression"),
    ("SELECT coalesce(a, ^*) FROM t", "a star inside an expression"),
    ("SELECT a FROM t WHERE a IN (^*)", "a star inside an expression"),
    ("SELECT ^* REPLACE (1 AS a) FROM t", "a star inside an expression"),
    ("SELECT *, t.^* FROM t", "a second star for the columns of t"),
]


@pytest.mark.parametrize(("marked", "what"), REFUSED)
@pytest.mark.parametrize("prefix", ["", "-- GROUP BY 'x\n\n  "])
def test_unsupported_query_is_refused_by_name_and_position(
    marked: str, what: str, prefix: str
) -> None:
    before, after = f"{prefix}{marked}".split("^")
    with pytest.raises(UnsupportedView) as raised:
        query(before + after)
    lines = before.split("\n")
    message = str(raised.value)
    assert message.startswith(f"view spark_catalog.default.v: has {what}")
    assert f" at line {len(lines)}, column {len(lines[-1]) + 1}, " in message
    near = re.search(r"near (['\"])(.*?)\1\.", message)
    quoted = near.group(2) if near else ""
    assert " ".join(after.split()).startswith(quoted)
    assert message.isprintable()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown syntax at line 1, column 1, at the end"),
        ("SELECT 'a FROM t", "a quote or a comment is not closed"),
        ("SELECT a b c FROM t", "cannot be parsed"),
        ("SELECT a FROM t -- x \\\nWHERE a", "ends in a backslash"),
        ("SELECT a FROM " + "(" * 3000 + "SELECT a FROM t" + ")" * 3000, "too many|too deeply"),
        ("SELECT " + "(" * 3000 + "a" + ")" * 3000 + " FROM t", "too many|too deeply"),
    ],
)
def test_view_text_that_is_not_a_query_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnsupportedView, match=message):
        query(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT interval LIMIT 5 FROM t",
        "SELECT a FROM t WHERE on LIMIT 5",
        "SELECT a FROM t WHERE all LIMIT 5",
        "SELECT a FROM t WHERE else UNION SELECT b FROM u",
    ],
)
def test_view_text_that_the_parser_reads_differently_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedView):
        query(text)


def test_message_of_an_unsupported_view_says_what_to_do() -> None:
    with pytest.raises(UnsupportedView) as raised:
        query("SELECT user FROM t")
    assert "Fix: leave it out; write a column of that name as the_table.user." in str(raised.value)
    assert raised.value.kind == "unsupported_view"


def functions_of_pyspark() -> dict[str, list[str]]:
    """The names of pyspark's functions, by the headings in its source."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    source = (Path(spec.origin).parent / "sql" / "functions" / "__init__.py").read_text()
    groups: dict[str, list[str]] = {}
    heading = ""
    for line in source.splitlines():
        if found := re.match(r"    # (.*) Functions$", line):
            heading = found[1]
        elif found := re.match(r'    "(\w+)",', line):
            groups.setdefault(heading, []).append(found[1])
    return groups


NOT_IN_SQL = {"count_distinct", "listagg_distinct", "string_agg_distinct", "sum_distinct"}


@pytest.mark.parametrize(("group", "least"), [("Aggregate", 70), ("Window", 8), ("Generator", 7)])
def test_every_pyspark_function_of_several_rows_is_refused(group: str, least: int) -> None:
    names = set(functions_of_pyspark()[group]) - NOT_IN_SQL
    assert len(names) >= least
    for name in names:
        with pytest.raises(UnsupportedView, match=f"has the .* {name} at line 1, column 8"):
            query(f"SELECT {name}(a) FROM t")


GIVEN = ("", "a", "a, b", "a, b, c", "'a', b, c, d")


def called(expression: str) -> frozenset[str]:
    try:
        return functions(query(f"SELECT {expression} FROM t"))
    except UnsupportedView as error:
        # The parser checks the number of arguments of many functions.
        if error.problem == "cannot be parsed":
            return frozenset()
        raise


def test_every_plain_pyspark_function_is_accepted() -> None:
    groups = functions_of_pyspark()
    names = {*groups["Mathematical"], *groups["String"], *groups["Array"], *groups["Map"]}
    changing = {"rand", "randn", "randstr", "uniform", "shuffle", "random"}
    for name in sorted(names - changing):
        assert any(name in called(f"{name}({given})") for given in GIVEN), name


@given(st.text(alphabet="abtu.,()*'`-\n/", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UnsupportedView):
        assert leaves(query(f"SELECT {text} FROM t"))


NESTED = st.recursive(
    st.sampled_from(["SELECT * FROM t", "SELECT a AS b FROM s.u x WHERE a > 1", "TABLE t"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(" UNION ALL ".join),
        inner.map(lambda text: f"SELECT q.* FROM ({text}) q, t w"),
        inner.map(lambda text: f"WITH q AS ({text}) SELECT 1 FROM q x JOIN q y ON x.a = y.a"),
        inner.map(lambda text: f"({text})"),
    ),
    max_leaves=6,
)


@given(NESTED)
def test_variants_match_their_count_have_no_union_and_read_every_leaf(text: str) -> None:
    if re.search(r"UNION ALL WITH", text):
        return
    found = query(text)
    trees = variants(found)
    assert len(trees) == count_of_variants(found)
    assert all(variants(tree) == (tree,) for tree in trees)
    read = {leaf for tree in trees for leaf in leaves(tree)}
    assert read == set(leaves(found))
    assert [leaf.number for leaf in leaves(found)] == list(range(len(leaves(found))))


@pytest.mark.parametrize(
    "name", ["spark.sql.caseSensitive", "spark.sql.parser.quotedRegexColumnNames"]
)
def test_view_with_settings_that_change_how_names_resolve_is_refused(name: str) -> None:
    definition = replace(view("SELECT a FROM t"), settings=((name, "TRUE"),))
    with pytest.raises(UnsupportedView, match=name):
        expand(definition, among({}))


@pytest.mark.parametrize(
    ("text", "now", "found"),
    [
        ("SELECT a + 1 AS c, c * 2 AS d FROM t", ["a", "b", "C"], "c, which is"),
        ("SELECT a + 1 c, upper(C.x) AS d FROM t", ["a", "b", "c"], "c, which is"),
        ("SELECT a + 1 AS c, t.c FROM t", ["a", "b", "c"], None),
        ("SELECT upper(c) AS c FROM t", ["a", "b", "c"], None),
        ("SELECT * FROM (SELECT * FROM t NATURAL JOIN u)", ["a", "b", "c"], "NATURAL JOIN"),
        ("SELECT * FROM t NATURAL JOIN u", ["A", "b"], None),
        ("SELECT * FROM t NATURAL JOIN u", ["b"], "NATURAL JOIN"),
        ("SELECT * FROM t JOIN u USING (a)", ["a", "b", "c"], None),
        ("SELECT * FROM t UNION ALL TABLE u", ["b", "a"], "UNION ALL of a star"),
        ("SELECT * FROM t UNION ALL TABLE u", ["a", "b", "c"], None),
        ("SELECT a, b FROM t UNION ALL SELECT a, b FROM u", ["b", "a"], None),
        ("SELECT * FROM t", ["b", "a"], None),
    ],
)
def test_change_of_column_names_may_change_the_meaning_of_a_view(
    text: str, now: list[str], found: str | None
) -> None:
    meaning = changed_meaning(query(text), ["a", "b"], now)
    assert found in meaning if found and meaning else meaning is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT c.x FROM u JOIN t AS c ON u.id = c.id", "c.x"),
        ("SELECT `C` . `X` FROM u JOIN t AS c ON u.id = c.id", "c.x"),
        ("SELECT 1 AS one FROM u JOIN (SELECT * FROM t) AS c ON c.x = 1", "c.x"),
        ("SELECT d FROM (SELECT c.x AS d FROM u, t AS c)", "c.x"),
        ("SELECT c.x FROM t AS u JOIN u AS c ON u.id = c.id", None),
        ("SELECT c.x FROM (SELECT id FROM t) AS t JOIN u AS c ON t.id = c.id", None),
        ("SELECT c.x FROM u JOIN (SELECT id FROM t) AS c ON u.id = c.id", None),
        ("SELECT c.xy, cc.x, x FROM u AS cc JOIN t AS c ON cc.id = c.id", None),
    ],
)
def test_name_after_a_dot_may_be_a_field_or_a_column(text: str, found: str | None) -> None:
    relation = query(text)
    numbers = [leaf.number for leaf in leaves(relation) if leaf.parts[-1] == "t"]
    expected = found and f"{found}, which is a field or a column, whichever exists"
    for before, now in ((["id"], ["id", "X"]), (["id", "x"], ["id"])):
        assert changed_meaning(relation, before, now, numbers=numbers) == expected


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("SELECT b FROM t WHERE A = 1", True),
        ("SELECT b FROM t WHERE `a` = 1", True),
        ("SELECT b FROM t JOIN u USING (a)", True),
        ("SELECT b FROM (SELECT a AS b FROM t)", True),
        ("SELECT b FROM t UNION ALL SELECT t.a FROM t", True),
        ("SELECT * FROM t", True),
        ("SELECT * FROM (SELECT * EXCEPT (b) FROM t)", True),
        ("SELECT u.* FROM t JOIN u ON t.b = u.b", True),
        ("SELECT b FROM (TABLE t)", True),
        ("SELECT b FROM t NATURAL JOIN u", True),
        ("SELECT b, aa, ab_a FROM t", False),
        ("SELECT * FROM (SELECT b * 2 AS d FROM t)", False),
        ("SELECT b FROM t", False),
    ],
)
def test_replaced_column_matters_only_to_views_that_may_read_it(text: str, is_read: bool) -> None:
    meaning = changed_meaning(query(text), ["a", "b"], ["a", "b"], {"a"})
    assert meaning == ("a, which is a different column now" if is_read else None)


def test_column_with_an_odd_name_is_found_in_a_view_in_any_case() -> None:
    spelt = {"a`b": "A``B", "a b": "A B", "\u00fc-\u00df": "\u00dc-\u00df", "(x)": "(X)"}
    for name, as_written in spelt.items():
        text = f"SELECT `{as_written}` AS c FROM t"
        assert changed_meaning(query(text), [name], [name], {name.lower()})
        assert changed_meaning(query("SELECT c FROM t"), [name], [name], {name.lower()}) is None
