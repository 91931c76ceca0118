"""The columns that each column of a statement's target comes from."""

from __future__ import annotations

import pytest

from airflow_provider_cdc.engine.core.names import table_name
from airflow_provider_cdc.engine.core.sql.column_lineage import ColumnLineage, column_lineage
from airflow_provider_cdc.engine.core.sql.column_tracing import Inputs

STREAMS = {
    "s": ("id", "v", "Addr"),
    "u": ("id", "w"),
    "odd": ("id", "change$action"),
    "of_view": None,
}
TARGET = ("id", "v", "w")
IDENTITIES = {"id": {"s.id identity"}, "v": {"s.v identity"}}


def found(sql: str, target: tuple[str, ...] | None = TARGET) -> ColumnLineage:
    return column_lineage(sql, STREAMS, target)


def texts(inputs: Inputs) -> set[str]:
    return {f"{'.'.join(each.table)}.{each.column} {each.use}" for each in inputs}


def columns(sql: str, target: tuple[str, ...] | None = TARGET) -> dict[str, set[str]]:
    return {name: texts(inputs) for name, inputs in found(sql, target).columns.items()}


@pytest.mark.parametrize(
    "query",
    [
        "(id, v) SELECT id, v FROM s",
        "(id, v) SELECT ID, a.V FROM S AS a",
        "(id, v) SELECT `Id`, `v` FROM `S`",
        "BY NAME SELECT v, id FROM s",
        "BY NAME SELECT * FROM s",
        "(id, v) WITH c AS (SELECT * FROM s) SELECT c.id, v FROM c",
        "(id, v) SELECT x, y FROM (SELECT id AS x, v AS y FROM s) AS q",
        "(id, v) SELECT id, v FROM s UNION ALL SELECT id, v FROM s",
        "SELECT id, v, METADATA$ACTION FROM s",
        "(id, v, w) SELECT * EXCEPT (METADATA$ISUPDATE, METADATA$ROW_ID, Addr) FROM s",
        "(id, v, w) SELECT id, v, change$action FROM s",
        "(v, id, w) SELECT v, id, _commit_version FROM s",
        "(v, id, w) SELECT v, id, s._commit_version FROM s",
    ],
)
def test_plain_columns_of_a_stream_are_identities(query: str) -> None:
    assert columns(f"INSERT INTO t {query}") == IDENTITIES


@pytest.mark.parametrize(
    "sql",
    [
        "WITH c AS (SELECT * FROM s) INSERT INTO t (id, v) SELECT id, v FROM c",
        "FROM s INSERT INTO t (id, v) SELECT id, v",
        "INSERT OVERWRITE lake.t (id, v) SELECT id, v FROM s",
        "INSERT INTO t REPLACE WHERE id > 1 SELECT id, v, 0 FROM s",
        "CREATE TABLE t USING delta AS SELECT id, v FROM s",
        "CREATE OR REPLACE TABLE lake.t AS SELECT * EXCEPT (Addr) FROM s",
        "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        "MERGE INTO t AS a USING (SELECT id AS k, v FROM s) AS b ON a.id = b.k"
        " WHEN MATCHED THEN UPDATE SET a.id = k, t.v = b.v WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "MERGE INTO lake.t USING s ON lake.t.id = s.id WHEN MATCHED THEN UPDATE SET lake.t.v = s.v"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (id, v)",
    ],
)
def test_each_kind_of_statement_has_the_columns_of_its_target(sql: str) -> None:
    assert columns(sql) == IDENTITIES


def test_clauses_of_a_merge_add_to_each_other() -> None:
    lineage = found(
        "MERGE INTO t USING (SELECT s.id, s.v, u.w FROM s JOIN u ON s.id = u.id) AS c"
        " ON t.id = c.id"
        " WHEN MATCHED AND c.w > 1 THEN UPDATE SET v = c.v, w = t.w + c.w"
        " WHEN MATCHED THEN UPDATE SET v = upper(c.w)"
        " WHEN NOT MATCHED AND c.v = 2 THEN INSERT (id, v) VALUES (c.id, 0)"
    )
    assert {name: texts(inputs) for name, inputs in lineage.columns.items()} == {
        "id": {"s.id identity"},
        "v": {"s.v identity", "u.w transformation"},
        "w": {"u.w transformation", "t.w transformation"},
    }
    assert texts(lineage.rows) == {"s.id join", "u.id join", "u.w filter", "s.v filter"}


@pytest.mark.parametrize(
    ("expression", "inputs"),
    [
        ("v + 1", {"s.v transformation"}),
        ("CAST(v AS INT)", {"s.v transformation"}),
        ("s.addr.city", {"s.Addr transformation"}),
        ("sum(v) + 1", {"s.v aggregation"}),
        ("max(v) || id", {"s.v aggregation", "s.id transformation"}),
        ("CASE WHEN v > 1 THEN id ELSE 0 END", {"s.v conditional", "s.id transformation"}),
        ("CASE v WHEN 1 THEN id END", {"s.v conditional", "s.id transformation"}),
        ("if(METADATA$ACTION = 'DELETE', NULL, id)", {"s.id transformation"}),
        ("sum(v) OVER (PARTITION BY id)", {"s.v aggregation", "s.id window"}),
        ("(SELECT max(w) FROM u WHERE u.id = s.id)", {"u.w aggregation"}),
        ("if(EXISTS (SELECT w FROM u WHERE u.id = s.id), v, 0)", {"s.v transformation"}),
        ("transform(v, x -> x + id)", {"s.v transformation", "s.id transformation"}),
    ],
)
def test_use_of_a_column_follows_from_its_expression(expression: str, inputs: set[str]) -> None:
    assert columns(f"INSERT INTO t (w) SELECT {expression} FROM s") == {"w": inputs}


def test_use_of_a_column_goes_through_inner_queries() -> None:
    sql = (
        "INSERT INTO t (id, v) WITH c AS (SELECT id, sum(v) AS total FROM s GROUP BY id)"
        " SELECT id, CASE WHEN total > 1 THEN total END FROM c"
    )
    assert columns(sql) == {
        "id": {"s.id identity"},
        "v": {"s.v conditional", "s.v aggregation"},
    }
    assert texts(found(sql).rows) == {"s.id group_by"}


def test_two_streams_and_a_table_are_distinguished() -> None:
    lineage = found(
        "INSERT INTO t SELECT a.id, c.Name, w FROM s AS a JOIN u ON a.id = u.id"
        " JOIN lake.customers AS c ON c.id = a.id WHERE METADATA$ACTION = 'INSERT' AND u.w > 1"
    )
    assert {name: texts(inputs) for name, inputs in lineage.columns.items()} == {
        "id": {"s.id identity"},
        "v": {"lake.customers.Name identity"},
        "w": {"u.w identity"},
    }
    assert texts(lineage.rows) == {
        "s.id join",
        "u.id join",
        "lake.customers.id join",
        "u.w filter",
    }
    assert lineage.tables == (table_name("lake.customers"),)


def test_update_and_delete_show_what_decides_about_rows() -> None:
    update = found(
        "UPDATE t AS x SET x.v = 1, w = x.w + 1, id = id WHERE id IN (SELECT id FROM u WHERE w > 3)"
    )
    assert {name: texts(each) for name, each in update.columns.items()} == {
        "w": {"t.w transformation"}
    }
    assert texts(update.rows) == {"u.id filter", "u.w filter"}
    assert texts(found("DELETE FROM t WHERE id IN (SELECT id FROM s)").rows) == {"s.id filter"}


def test_names_keep_the_spelling_of_their_tables() -> None:
    sql = "INSERT INTO t (V) SELECT addr FROM s"
    assert columns(sql) == {"v": {"s.Addr identity"}}
    assert columns(sql, None) == {"V": {"s.Addr identity"}}


def test_column_called_like_a_metadata_column_is_a_column() -> None:
    sql = "INSERT INTO t (id, v) SELECT id, change$action FROM odd"
    assert columns(sql) == {"id": {"odd.id identity"}, "v": {"odd.change$action identity"}}


def test_cte_hides_the_stream_of_its_name() -> None:
    sql = "WITH s AS (SELECT w AS v FROM u) INSERT INTO t (v) SELECT s.v FROM s"
    assert columns(sql) == {"v": {"u.w identity"}}


def test_table_of_a_schema_is_not_the_stream_of_that_name() -> None:
    lineage = found("INSERT INTO t (id, v) SELECT x.id, u.w FROM lake.s AS x, u")
    assert texts(lineage.columns["id"]) == {"lake.s.id identity"}
    assert lineage.tables == (table_name("lake.s"),)


def test_table_by_its_path_is_named_by_it() -> None:
    lineage = found("INSERT INTO t (id) SELECT p.k FROM delta.`/a/b` AS p, s")
    assert lineage.columns["id"][0].table == ("delta", "/a/b")
    assert lineage.tables == (table_name("/a/b"),)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t SELECT * FROM s",
        "INSERT INTO t SELECT id, v FROM s",
        "INSERT INTO t PARTITION (w = 1) SELECT id, v, v FROM s",
        "INSERT INTO t (id, v) SELECT * FROM of_view",
        "INSERT INTO t (id, v) SELECT id, v FROM of_view",
        "INSERT INTO t (id, v) SELECT * FROM lake.customers",
        "INSERT INTO t (id) SELECT name FROM lake.customers, lake.orders, s",
        "INSERT INTO t (id) SELECT item FROM s LATERAL VIEW explode(v) AS item",
        "INSERT INTO t (id) SELECT a FROM s PIVOT (sum(v) FOR addr IN ('a', 'b'))",
        "INSERT INTO t (id) SELECT (SELECT max(x) FROM lake.customers) FROM s",
        "INSERT INTO t (id, v) SELECT id, v FROM s UNION ALL SELECT c.*, w FROM lake.c AS c, u",
        "INSERT INTO t (id) SELECT 1 FROM s",
        "INSERT INTO t VALUES (1, 2, 3)",
        "INSERT INTO t (v) SELECT change$action FROM s WHERE METADATA$ACTION = 'INSERT'",
        "MERGE INTO t USING of_view AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO t USING lake.c AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        "SELECT id FROM s",
        "INSERT INTO t (id) SELECT id FROM",
        "INSERT INTO s SELECT id FROM u",
        "DROP TABLE t",
        "INSERT INTO t (id) SELECT " + "(" * 3000 + "id" + ")" * 3000 + " FROM s",
        "",
    ],
)
def test_text_that_does_not_show_columns_has_none(sql: str) -> None:
    assert columns(sql) == {}


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t SELECT id, v, 1 FROM s",
        "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ],
)
def test_target_whose_columns_are_unknown_is_not_guessed(sql: str) -> None:
    assert columns(sql, None) == {}
    assert columns(sql) == IDENTITIES


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t (id, v) SELECT id, (SELECT max(x) FROM lake.c) FROM s",
        "UPDATE t SET v = (SELECT max(x) FROM lake.c) WHERE id IN (SELECT id FROM s)",
        "INSERT INTO t (id) SELECT x + 1 AS y, y * 2 AS z FROM lake.c",
    ],
)
def test_statement_with_a_column_of_several_tables_has_its_tables(sql: str) -> None:
    lineage = found(sql)
    assert (lineage.columns, lineage.tables) == ({}, (table_name("lake.c"),))


def test_column_is_left_out_if_one_of_its_origins_is_unknown() -> None:
    sql = "INSERT INTO t (id, v) SELECT s.id, s.v + o.x FROM s JOIN of_view AS o ON o.id = s.id"
    assert columns(sql) == {"id": {"s.id identity"}}
    assert texts(found(sql).rows) == {"s.id join"}
