"""Queries that read streams, as distinct from statements that consume them."""

from __future__ import annotations

import pytest

from airflow_provider_cdc.engine.core.errors import InvalidStatement
from airflow_provider_cdc.engine.core.sql.stream_queries import (
    analyse_query,
    bind_query,
    only_query,
)

VIEWS = {"s": "view_s", "d": "view_d"}


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("SELECT * FROM s;", "SELECT * FROM `view_s` AS `s`"),
        (
            "SELECT S.METADATA$ACTION FROM S",
            "SELECT S.`METADATA$ACTION` FROM `view_s` AS `S`",
        ),
        ("FROM s SELECT id", "FROM `view_s` AS `s` SELECT id"),
        (
            "WITH a AS (SELECT 1) SELECT * FROM a, d x",
            "WITH a AS (SELECT 1) SELECT * FROM a, `view_d` x",
        ),
        ("(SELECT id FROM s) UNION ALL (SELECT 1)", None),
        ("VALUES (1), (2)", "VALUES (1), (2)"),
        ("SELECT * FROM db.s", "SELECT * FROM db.s"),
    ],
)
def test_query_is_bound_to_the_views_of_its_streams(text: str, bound: str | None) -> None:
    query = analyse_query(text, ["s", "d"])

    assert query is not None
    found = bind_query(query, VIEWS)
    assert found == bound or (bound is None and "`view_s`" in found)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t SELECT * FROM s",
        "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
        "FROM s INSERT INTO t SELECT * INSERT INTO u SELECT *",
        "FROM s INSERT INTO t SELECT *",
        "DELETE FROM t",
        "CREATE TABLE t AS SELECT * FROM s",
        "DROP TABLE t",
    ],
)
def test_analyse_query_of_another_statement_returns_nothing(text: str) -> None:
    assert analyse_query(text, ["s"]) is None


@pytest.mark.parametrize(
    "text", ["", "SELECT 1; SELECT 2", "SELECT 'a", "SELECT FROM WHERE", ["SELECT 1"], None, 5]
)
def test_analyse_query_of_invalid_input_is_refused(text: str) -> None:
    with pytest.raises(InvalidStatement):
        analyse_query(text, ["s"])


@pytest.mark.parametrize(
    "text", ["SELECT 1;", "WITH a AS (SELECT 1) SELECT * FROM a", "VALUES (1)", "FROM t SELECT id"]
)
def test_only_query_keeps_the_text_except_for_its_semicolon(text: str) -> None:
    assert only_query(text) == text.rstrip(";")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("INSERT INTO t SELECT 1", "INSERT"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "INSERT"),
        ("FROM a INSERT INTO t SELECT id", "INSERT"),
        ("DROP TABLE t", "DROP"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE", "MERGE"),
    ],
)
def test_only_query_of_another_statement_is_refused_by_its_kind(text: str, found: str) -> None:
    with pytest.raises(InvalidStatement, match=f"is not a query.*found {found}"):
        only_query(text)
