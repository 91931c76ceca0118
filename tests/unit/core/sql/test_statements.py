"""Parsing the SQL of a consumption, and replacing its streams by views."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.errors import InvalidName, InvalidStatement
from airflow_provider_cdc.engine.core.model.consumption import StatementKind
from airflow_provider_cdc.engine.core.sql.statements import (
    Statement,
    analyse,
    bind,
    creation_text,
    insertion_text,
    plan_streams,
    replacement_text,
    text_to_run,
)
from airflow_provider_cdc.engine.core.sql.stream_references import (
    parse,
    stream_references,
    tokenise,
)

STREAMS = ("s", "Flights_Changes", "straße", "航班", "orders")
VIEWS = {"s": "v", "Flights_Changes": "f", "航班": "h", "orders": "o`1"}


def bound(sql: str) -> str:
    return bind(analyse(sql, STREAMS), VIEWS)


def read(sql: str) -> tuple[str, ...]:
    return analyse(sql, STREAMS).streams


# --- what a statement is


@pytest.mark.parametrize(
    ("sql", "kind", "target"),
    [
        ("INSERT INTO t SELECT * FROM s", StatementKind.INSERT, "`t`"),
        ("INSERT INTO TABLE db.t (a, b) SELECT * FROM s", StatementKind.INSERT, "`db`.`t`"),
        ("insert overwrite t select * from s", StatementKind.INSERT, "`t`"),
        ("INSERT OVERWRITE t PARTITION (d = 'x') SELECT * FROM s", StatementKind.INSERT, "`t`"),
        ("INSERT INTO t BY NAME SELECT * FROM s", StatementKind.INSERT, "`t`"),
        ("INSERT INTO t REPLACE WHERE a > 1 SELECT * FROM s", StatementKind.INSERT, "`t`"),
        ("INSERT WITH SCHEMA EVOLUTION INTO t TABLE s", StatementKind.INSERT, "`t`"),
        ("WITH q AS (TABLE s) INSERT INTO t TABLE q", StatementKind.INSERT, "`t`"),
        ("INSERT INTO delta.`/a b/t.x` TABLE s", StatementKind.INSERT, "delta.`/a b/t.x`"),
        ("INSERT INTO c.`my db`.`a``b` TABLE s", StatementKind.INSERT, "`c`.`my db`.`a``b`"),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
            StatementKind.MERGE,
            "`t`",
        ),
        (
            "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON true WHEN NOT MATCHED THEN INSERT *",
            StatementKind.MERGE,
            "`t`",
        ),
        ("UPDATE db.t AS x SET a = 1 WHERE x.b > 2", StatementKind.UPDATE, "`db`.`t`"),
        ("DELETE FROM t WHERE a = 1", StatementKind.DELETE, "`t`"),
        ("CREATE TABLE db.t AS SELECT * FROM s", StatementKind.CREATE_TABLE, "`db`.`t`"),
        ("CREATE OR REPLACE TABLE delta.`/x` AS TABLE s", StatementKind.CREATE_TABLE, "delta.`/x`"),
    ],
)
def test_analyse_of_dml_gives_kind_and_target(sql: str, kind: StatementKind, target: str) -> None:
    statement = analyse(sql, STREAMS)
    assert (statement.kind, statement.target.sql) == (kind, target)


def test_analyse_trims_text_and_semicolon_before_the_fingerprint() -> None:
    statement = analyse("\n INSERT INTO t SELECT METADATA$ACTION FROM s ;\n-- done\n", STREAMS)
    assert statement.text == "INSERT INTO t SELECT METADATA$ACTION FROM s"
    assert statement.fingerprint == hashlib.sha256(statement.text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "is empty"),
        (" ;\n-- nothing", "is empty"),
        ("SELECT * FROM s", "does not consume.*read_stream"),
        ("(SELECT * FROM s)", "does not consume.*read_stream"),
        ("WITH q AS (SELECT * FROM s) SELECT * FROM q", "does not consume.*read_stream"),
        ("TABLE s", "does not consume.*read_stream"),
        ("FROM s SELECT *", "does not consume.*read_stream"),
        ("INSERT INTO t TABLE s; DELETE FROM t", "several statements"),
        ("FROM s INSERT INTO a SELECT * INSERT INTO b SELECT *", "several tables at once"),
        ("FROM s INSERT INTO a SELECT 1 INSERT INTO a SELECT 2", "several times into one"),
        ("FROM s INSERT INTO s SELECT 1", "writes to stream s"),
        ("FROM s INSERT INTO t MAP id USING 'cat'", "cannot be parsed"),
        ("TRUNCATE TABLE t", "cannot take part.*DELETE FROM"),
        ("TRUNCATE TABLE s", "cannot take part.*DELETE FROM"),
        ("REPLACE TABLE t AS TABLE s", "CREATE OR REPLACE TABLE"),
        ("CREATE TABLE t (a INT)", "does not create a table from a query"),
        ("CREATE TABLE t (a INT GENERATED ALWAYS AS (1))", "does not create a table from a query"),
        ("CREATE TABLE t SELECT a AS b FROM s", "does not create a table from a query"),
        ("CREATE TABLE t AS", "does not create a table from a query"),
        ("CREATE TABLE t AS DELETE FROM s", "does not create a table from a query"),
        ("CREATE TABLE", "does not create a table from a query"),
        ("CREATE TEMP VIEW v AS TABLE s", "does not create a table from a query"),
        ("CREATE TABLE t LIKE s", "does not create a table from a query"),
        ("DROP TABLE t", "is not DML.*found DROP"),
        ("ALTER TABLE t ADD COLUMN a INT", "is not DML.*found ALTER"),
        ("OPTIMIZE t", "is not DML.*found OPTIMIZE"),
        ("'a'", "is not DML"),
        ("INSERT", r"cannot be parsed\. Cause: Expected table name at line 1"),
        ("INSERT INTO t\nSELECT * FRM s WHERE", "line 2, column 14, near 's'"),
        ("INSERT INTO t SELECT 'a FROM s", "a quote or a comment is not closed"),
        ("INSERT INTO t SELECT `a FROM s", "a quote or a comment is not closed"),
        ("INSERT INTO t SELECT 1 /* a", "a quote or a comment is not closed"),
        ("INSERT INTO t SELECT " + "(" * 5000, "cannot be parsed.*nested too deeply"),
        ("INSERT INTO t SELECT '\ud800'", "is not text"),
        ("INSERT OVERWRITE DIRECTORY '/x' USING parquet TABLE s", "files into a folder"),
        ("INSERT OVERWRITE LOCAL DIRECTORY '/x' TABLE s", "files into a folder"),
        ("INSERT INTO IDENTIFIER('t') TABLE s", "IDENTIFIER clause"),
        ("INSERT INTO t SELECT * FROM IDENTIFIER('s')", "IDENTIFIER clause"),
        ("INSERT INTO ${raw}.orders TABLE s", "variable in the name of its target"),
        ("INSERT INTO lake.${t} TABLE s", "variable in the name of its target"),
        ("UPDATE x_${env} SET a = (SELECT max(a) FROM s)", "variable in the name of its target"),
        ("MERGE INTO ${t} USING s ON true WHEN MATCHED THEN DELETE", "variable in the name"),
        ("CREATE TABLE ${t} AS TABLE s", "variable in the name of its target"),
        ("CREATE TABLE lake.t_${env} USING delta AS TABLE s", "variable in the name"),
        ("INSERT INTO t SELECT * FROM f(TABLE(S))", "TABLE\\(SELECT"),
        ("INSERT INTO t SELECT * FROM u -- a \\\n, s", "ends in a backslash"),
    ],
)
def test_analyse_of_an_unsupported_statement_is_refused(sql: str, message: str) -> None:
    with pytest.raises(InvalidStatement, match=f"(?s){message}") as raised:
        analyse(sql, STREAMS)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO s SELECT 1",
        "INSERT INTO `S` (a) SELECT 1",
        "UPDATE s SET a = 1",
        "DELETE FROM S",
        "MERGE INTO s USING u ON true WHEN MATCHED THEN DELETE",
        "CREATE TABLE s AS SELECT 1",
    ],
)
def test_analyse_of_a_stream_as_target_is_refused(sql: str) -> None:
    with pytest.raises(InvalidStatement, match="writes to stream s"):
        analyse(sql, STREAMS)


def test_analyse_of_a_table_in_a_schema_with_a_streams_name_is_accepted() -> None:
    assert analyse("INSERT INTO db.s SELECT * FROM db.s", STREAMS).streams == ()


@pytest.mark.parametrize(
    ("definition", "source"),
    [
        ("", None),
        ("USING delta", "delta"),
        ("COMMENT 'using csv' using DELTA", "DELTA"),
        ("USING `delta` PARTITIONED BY (using)", "delta"),
        ("PARTITIONED BY (using) USING parquet", "parquet"),
    ],
)
def test_data_source_of_a_created_table_is_the_word_after_using(
    definition: str, source: str | None
) -> None:
    statement = analyse(f"CREATE TABLE t {definition} AS SELECT * FROM s", ["s"])
    assert statement.create is not None
    assert statement.create.data_source == source


@pytest.mark.parametrize("sql", ["INSERT INTO a.b.c.d TABLE s", "CREATE TABLE a.b.c.d AS TABLE s"])
def test_analyse_of_a_target_of_four_parts_is_refused(sql: str) -> None:
    with pytest.raises(InvalidName, match="found 4 parts"):
        analyse(sql, STREAMS)


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("DELETE FROM t WHERE id NOT IN (SELECT id FROM s)", "the condition of a DELETE"),
        ("DELETE FROM t WHERE NOT id IN (SELECT id FROM s)", "the condition of a DELETE"),
        ("DELETE FROM t WHERE id IN (SELECT id FROM s) OR v = 1", "the condition of a DELETE"),
        ("DELETE FROM t WHERE id = (SELECT max(id) FROM s)", "the condition of a DELETE"),
        (
            "DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.id = t.id)",
            "the condition of a DELETE",
        ),
        (
            "DELETE FROM t WHERE a IN (SELECT a FROM s) AND b IN (SELECT b FROM u)",
            "the condition of a DELETE",
        ),
        (
            "DELETE FROM t WHERE CASE WHEN a IN (SELECT a FROM s) THEN true END",
            "the condition of a DELETE",
        ),
        ("WITH q AS (TABLE s) DELETE FROM t WHERE id IN (SELECT id FROM q)", "a DELETE"),
        ("DELETE FROM t USING s", "a DELETE"),
        (
            "UPDATE t SET a = 1 WHERE id NOT IN (SELECT id FROM s)",
            "the condition of an UPDATE",
        ),
        ("UPDATE t SET a = 1 FROM s", "the FROM of an UPDATE"),
        (
            "MERGE INTO t USING u ON t.id IN (SELECT id FROM s) WHEN MATCHED THEN DELETE",
            "the search condition of a MERGE",
        ),
        (
            "MERGE INTO t USING s ON true WHEN MATCHED AND EXISTS (SELECT 1 FROM s) THEN DELETE",
            "the condition of a WHEN clause",
        ),
        (
            "INSERT INTO t REPLACE WHERE id IN (SELECT id FROM s) TABLE u",
            "the condition of REPLACE WHERE",
        ),
    ],
)
def test_analyse_of_a_stream_in_an_invalid_condition_suggests_merge(sql: str, place: str) -> None:
    with pytest.raises(InvalidStatement, match=f"reads stream s in {place}.*MERGE INTO"):
        analyse(sql, STREAMS)


def test_delete_by_keys_of_a_stream_is_rewritten_as_a_merge() -> None:
    sql = """DELETE FROM a.t AS x
        WHERE x.v BETWEEN 1 AND 2 AND x.id IN (SELECT id FROM s -- the keys
        ) AND NOT x.kept -- the end"""
    found = analyse(sql, STREAMS)
    assert (found.kind, found.target.sql, found.streams) == (
        StatementKind.DELETE,
        "`a`.`t`",
        ("s",),
    )
    assert found.fingerprint == hashlib.sha256(sql.encode()).hexdigest()
    assert found.text == found.rewritten_as
    assert " ".join(bind(found, {"s": "view"}).split()) == (
        "MERGE INTO a.t AS x USING (SELECT DISTINCT * FROM ("
        " SELECT id FROM `view` AS `s` ) AS __cdc_keys(__cdc_key_1)) AS __cdc_keys"
        " ON (x.id) = __cdc_keys.__cdc_key_1 AND (x.v BETWEEN 1 AND 2) AND (NOT x.kept)"
        " WHEN MATCHED THEN DELETE"
    )


def test_update_by_keys_of_a_stream_is_rewritten_as_a_merge() -> None:
    found = analyse(
        "UPDATE t SET a = f(1, 2), b = CASE WHEN c THEN 1 END"
        " WHERE (a, t.b) IN (SELECT c, METADATA$ROW_ID FROM s)",
        STREAMS,
    )
    assert found.kind is StatementKind.UPDATE
    assert " ".join(bind(found, {"s": "view"}).split()) == (
        "MERGE INTO t USING (SELECT DISTINCT * FROM ("
        " SELECT c, `METADATA$ROW_ID` FROM `view` AS `s` )"
        " AS __cdc_keys(__cdc_key_1, __cdc_key_2)) AS __cdc_keys"
        " ON (a) = __cdc_keys.__cdc_key_1 AND (t.b) = __cdc_keys.__cdc_key_2"
        " WHEN MATCHED THEN UPDATE SET a = f(1, 2), b = CASE WHEN c THEN 1 END"
    )


@pytest.mark.parametrize(
    ("sql", "clause"),
    [
        ("DELETE FROM t WHERE x IN (SELECT k FROM s) AND t.set = 1", "THEN DELETE"),
        ("DELETE FROM t WHERE set IN (SELECT k FROM s)", "ON (set) = __cdc_keys.__cdc_key_1"),
        ("UPDATE set SET v = 1 WHERE x IN (SELECT k FROM s)", "INTO set\nUSING"),
    ],
)
def test_rewrite_as_a_merge_accepts_names_that_are_keywords(sql: str, clause: str) -> None:
    assert clause in analyse(sql, STREAMS).text


@pytest.mark.parametrize(
    "left", ["()", "x BETWEEN 1 AND y", "a LIKE b", "a IS NULL", "a = b", "NOT a"]
)
def test_left_side_of_in_that_spark_does_not_accept_is_refused(left: str) -> None:
    with pytest.raises(InvalidStatement):
        analyse(f"DELETE FROM t WHERE {left} IN (SELECT k FROM s)", STREAMS)


def test_analyse_of_a_delete_without_a_sub_query_keeps_the_text() -> None:
    sql = "DELETE FROM t WHERE id IN (1, 2) AND v = 'IN (SELECT'"
    found = analyse(sql, STREAMS)
    assert (found.text, found.rewritten_as) == (sql, None)


def test_analyse_of_a_delete_from_a_stream_quotes_the_users_text() -> None:
    with pytest.raises(InvalidStatement, match=r"statement 'DELETE FROM s WHERE.*writes to"):
        analyse("DELETE FROM s WHERE id IN (SELECT id FROM s)", STREAMS)


@pytest.mark.parametrize(
    "relation",
    ["s VERSION AS OF 1", "s FOR TIMESTAMP AS OF '2013-01-01' AS x", "STREAM s", "STREAM(s)"],
)
def test_analyse_of_a_stream_at_a_version_of_its_own_is_refused(relation: str) -> None:
    with pytest.raises(InvalidStatement, match="at a version of its own"):
        analyse(f"INSERT INTO t SELECT * FROM {relation}", STREAMS)


# --- which streams it reads


@pytest.mark.parametrize(
    ("sql", "streams"),
    [
        ("INSERT INTO t SELECT * FROM S", ("s",)),
        ("INSERT INTO t SELECT * FROM `flights_changes`", ("Flights_Changes",)),
        ("INSERT INTO t SELECT * FROM `航班` JOIN s JOIN S", ("航班", "s")),
        ("INSERT INTO t SELECT * FROM s, orders", ("s", "orders")),
        ("INSERT INTO t SELECT * FROM u WHERE a IN (SELECT a FROM s)", ("s",)),
        ("INSERT INTO t SELECT (SELECT max(a) FROM s)", ("s",)),
        ("INSERT INTO t SELECT * FROM s WHERE 0 = 1", ("s",)),
        ("INSERT INTO t SELECT * FROM s WHERE a > ${cutoff} AND b = '${c}'", ("s",)),
        ("INSERT INTO t SELECT * FROM STRAßE", ("straße",)),
        ("INSERT INTO t SELECT * FROM strasse", ()),
        ("INSERT INTO t SELECT * FROM db.s", ()),
        ("INSERT INTO t SELECT * FROM s.t", ()),
        ("INSERT INTO t SELECT s, s.s FROM u AS s", ()),
        ("INSERT INTO t (s) SELECT s FROM range(3) AS s(s)", ()),
        ("INSERT INTO t SELECT 's', \"FROM s\", r'\\' -- FROM s\n /* FROM s /* s */ */", ()),
        ("INSERT INTO t SELECT /*+ BROADCAST(s) */ * FROM u AS s", ()),
        ("INSERT INTO t SELECT a FROM u WHERE a IS DISTINCT FROM s", ()),
        ("INSERT INTO t VALUES (1)", ()),
        ("UPDATE t SET a = (SELECT max(a) FROM s)", ("s",)),
    ],
)
def test_analyse_finds_the_streams_that_are_read(sql: str, streams: tuple[str, ...]) -> None:
    assert read(sql) == streams


@pytest.mark.parametrize(
    ("sql", "streams"),
    [
        ("WITH s AS (SELECT 1) INSERT INTO t SELECT * FROM s", ()),
        ("INSERT INTO t WITH S AS (SELECT 1) SELECT * FROM `s`", ()),
        ("WITH s AS (SELECT 1) MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE", ()),
        ("WITH s AS (SELECT * FROM s) INSERT INTO t SELECT * FROM s", ("s",)),
        ("WITH RECURSIVE s AS (SELECT * FROM s) INSERT INTO t SELECT * FROM s", ()),
        ("WITH q AS (SELECT * FROM s), s AS (SELECT 1) INSERT INTO t SELECT * FROM q", ("s",)),
        ("WITH s AS (SELECT 1), q AS (SELECT * FROM s) INSERT INTO t SELECT * FROM q", ()),
        ("INSERT INTO t SELECT * FROM (WITH s AS (SELECT 1) SELECT * FROM s)", ()),
        ("INSERT INTO t SELECT * FROM (WITH s AS (SELECT 1) TABLE s) JOIN s", ("s",)),
        ("INSERT INTO t WITH s AS (SELECT 1) SELECT 1 UNION SELECT * FROM s", ()),
        ("INSERT INTO t (WITH s AS (SELECT 1) TABLE s) UNION SELECT * FROM s", ("s",)),
        ("INSERT INTO t WITH s AS (SELECT 1) SELECT (SELECT max(a) FROM s)", ()),
        ("INSERT INTO t WITH s AS (SELECT 1) TABLE s |> UNION ALL (TABLE s)", ()),
        ("CREATE TABLE t AS WITH s AS (SELECT 1) SELECT * FROM s", ()),
    ],
)
def test_cte_with_a_streams_name_hides_the_stream_within_its_scope(
    sql: str, streams: tuple[str, ...]
) -> None:
    assert read(sql) == streams


def test_stream_references_of_a_tree_from_another_text_are_refused() -> None:
    text = "INSERT INTO t SELECT * FROM u"
    tree = parse("SELECT 1 UNION SELECT 2, 3 FROM s", tokenise("SELECT 1 UNION SELECT 2, 3 FROM s"))
    with pytest.raises(InvalidStatement, match="reads stream s where it cannot be located"):
        stream_references(text, tokenise(text), tree, None, {"s": "s"})


def test_names_that_the_parser_invents_for_pipes_are_not_streams() -> None:
    sql = "INSERT INTO t SELECT * FROM u |> WHERE a > 1 |> SELECT a"
    assert analyse(sql, ["__tmp1"]).streams == ()


# --- what Spark runs


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "MERGE INTO delta.`/a b/t.x` t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
            "MERGE INTO delta.`/a b/t.x` t USING `v` AS `s` ON t.a = s.a WHEN MATCHED THEN DELETE",
        ),
        (
            "MERGE INTO t USING `S` x ON t.id = x.id WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING `v` x ON t.id = x.id WHEN MATCHED THEN DELETE",
        ),
        (
            "MERGE INTO t USING (SELECT * FROM FLIGHTS_changes) AS s ON true "
            "WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING (SELECT * FROM `f` AS `FLIGHTS_changes`) AS s ON true "
            "WHEN MATCHED THEN DELETE",
        ),
        (
            "INSERT INTO t SELECT * FROM s AS a JOIN s b ON a.id = b.id, s, (s)",
            "INSERT INTO t SELECT * FROM `v` AS a JOIN `v` b ON a.id = b.id, `v` AS `s`, "
            "(`v` AS `s`)",
        ),
        ("INSERT INTO t SELECT * FROM orders", "INSERT INTO t SELECT * FROM `o``1` AS `orders`"),
        ("INSERT INTO t TABLE s", "INSERT INTO t TABLE `v`"),
        (
            "INSERT INTO t (TABLE s) UNION ALL TABLE `S`",
            "INSERT INTO t (TABLE `v`) UNION ALL TABLE `v`",
        ),
        ("INSERT INTO t FROM s SELECT *", "INSERT INTO t FROM `v` AS `s` SELECT *"),
        (
            "INSERT INTO t SELECT * FROM s TABLESAMPLE ((1 + 1) ROWS) REPEATABLE (3) WHERE a",
            "INSERT INTO t SELECT * FROM `v` TABLESAMPLE ((1 + 1) ROWS) REPEATABLE (3) AS `s` "
            "WHERE a",
        ),
        (
            "INSERT INTO t SELECT * FROM s TABLESAMPLE (5 PERCENT) x",
            "INSERT INTO t SELECT * FROM `v` TABLESAMPLE (5 PERCENT) x",
        ),
        (
            "INSERT INTO t SELECT * FROM s PIVOT (sum(a) FOR b IN (1, 2)) AS p",
            "INSERT INTO t SELECT * FROM `v` AS `s` PIVOT (sum(a) FOR b IN (1, 2)) AS p",
        ),
        (
            "INSERT INTO t SELECT * FROM s x(a, b) LATERAL VIEW explode(a) s AS c",
            "INSERT INTO t SELECT * FROM `v` x(a, b) LATERAL VIEW explode(a) s AS c",
        ),
        (
            "INSERT INTO t SELECT /*+ BROADCAST(s) */ 's;' /* s */ FROM/**/s-- s\n ANTI JOIN u",
            "INSERT INTO t SELECT /*+ BROADCAST(s) */ 's;' /* s */ FROM/**/`v` AS `s`-- s\n"
            " ANTI JOIN u",
        ),
        (
            "INSERT INTO t SELECT '🛫', * FROM `航班` WHERE `航班`.`号` = 1",
            "INSERT INTO t SELECT '🛫', * FROM `h` AS `航班` WHERE `航班`.`号` = 1",
        ),
        (
            "INSERT INTO t SELECT * FROM s |> WHERE a > 1 |> UNION ALL (SELECT * FROM s)",
            "INSERT INTO t SELECT * FROM `v` AS `s` |> WHERE a > 1 |> UNION ALL "
            "(SELECT * FROM `v` AS `s`)",
        ),
        (
            "WITH s AS (SELECT * FROM s) INSERT INTO t SELECT * FROM s",
            "WITH s AS (SELECT * FROM `v` AS `s`) INSERT INTO t SELECT * FROM s",
        ),
        ("DELETE FROM t WHERE a = 's' ; ", "DELETE FROM t WHERE a = 's'"),
    ],
)
def test_bind_replaces_the_streams_and_keeps_the_rest(sql: str, expected: str) -> None:
    assert bound(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND METADATA$ACTION = 'DELETE' "
            "THEN DELETE WHEN NOT MATCHED THEN INSERT (a, b) "
            "VALUES (s.metadata$isupdate, change$action)",
            "MERGE INTO t USING `v` AS `s` ON t.id = s.id WHEN MATCHED AND `METADATA$ACTION` = "
            "'DELETE' THEN DELETE WHEN NOT MATCHED THEN INSERT (a, b) VALUES "
            "(s.`metadata$isupdate`, `change$action`)",
        ),
        (
            "INSERT INTO t SELECT * EXCEPT(METADATA$ROW_ID, change$row_id,"
            "s.change$is_update) FROM s",
            "INSERT INTO t SELECT * EXCEPT(`METADATA$ROW_ID`, `change$row_id`,"
            "s.`change$is_update`) FROM `v` AS `s`",
        ),
        (
            "INSERT INTO t SELECT `METADATA$ACTION`, 'METADATA$ACTION' -- METADATA$ACTION\n FROM s",
            "INSERT INTO t SELECT `METADATA$ACTION`, 'METADATA$ACTION' -- METADATA$ACTION\n"
            " FROM `v` AS `s`",
        ),
    ],
)
def test_bind_of_unquoted_metadata_columns_quotes_them(sql: str, expected: str) -> None:
    assert bound(sql) == expected


@pytest.mark.parametrize("column", ["METADATA$OTHER", "METADATA $ACTION", "METADATA$ACTION$X"])
def test_analyse_of_an_unknown_dollar_column_is_refused_by_the_parser(column: str) -> None:
    sql = f"MERGE INTO t USING s ON true WHEN MATCHED AND {column} = 1 THEN DELETE"
    with pytest.raises(InvalidStatement, match="cannot be parsed"):
        analyse(sql, STREAMS)


def test_create_table_is_split_at_its_own_as_keyword() -> None:
    statement = analyse(
        "CREATE TABLE IF NOT EXISTS db.t USING delta PARTITIONED BY (change$action)\n"
        "TBLPROPERTIES ('AS' = 'select') -- AS SELECT\n"
        "AS WITH q AS (SELECT a AS b, change$action FROM s) SELECT * FROM q -- end",
        STREAMS,
    )
    create = statement.create
    assert create is not None
    assert not create.or_replace
    assert create.definition.endswith("TBLPROPERTIES ('AS' = 'select') -- AS SELECT")
    assert create.query.startswith("WITH q AS (SELECT a AS b")
    query = "WITH q AS (SELECT a AS b, `change$action` FROM `v` AS `s`) SELECT * FROM q -- end"
    assert creation_text(statement, VIEWS) == (
        "CREATE TABLE db.t USING delta PARTITIONED BY (`change$action`)\n"
        "TBLPROPERTIES ('AS' = 'select') -- AS SELECT\n"
        f"AS SELECT * FROM (\n{query}\n) WHERE 1 = 0"
    )
    assert replacement_text(statement, VIEWS) == (
        "CREATE OR REPLACE TABLE db.t USING delta PARTITIONED BY (`change$action`)\n"
        f"TBLPROPERTIES ('AS' = 'select') -- AS SELECT\nAS\n{query}"
    )
    assert insertion_text(statement, VIEWS) == f"INSERT INTO `db`.`t`\n{query}"
    assert text_to_run(statement, VIEWS, created=True) == insertion_text(statement, VIEWS)
    assert text_to_run(statement, VIEWS, created=False) == replacement_text(statement, VIEWS)


def test_create_or_replace_table_of_a_table_query_is_bound_in_every_text() -> None:
    statement = analyse("create or replace table delta.`/a b` as table s;", STREAMS)
    assert statement.create is not None
    assert statement.create.or_replace
    assert creation_text(statement, VIEWS) == (
        "CREATE TABLE delta.`/a b`\nAS SELECT * FROM (\ntable `v`\n) WHERE 1 = 0"
    )
    assert replacement_text(statement, VIEWS) == (
        "CREATE OR REPLACE TABLE delta.`/a b`\nAS\ntable `v`"
    )
    assert insertion_text(statement, VIEWS) == "INSERT INTO delta.`/a b`\ntable `v`"


def test_creation_text_of_another_statement_is_refused() -> None:
    statement = analyse("INSERT INTO t TABLE s", STREAMS)
    with pytest.raises(InvalidStatement, match="is not CREATE TABLE"):
        creation_text(statement, VIEWS)
    with pytest.raises(InvalidStatement, match="is not CREATE TABLE"):
        insertion_text(statement, VIEWS)
    with pytest.raises(InvalidStatement, match="is not CREATE TABLE"):
        replacement_text(statement, VIEWS)
    assert text_to_run(statement, VIEWS, created=False) == bind(statement, VIEWS)


RELATIONS = st.sampled_from(
    [
        ("s", "`v` AS `s`"),
        ("`S`", "`v` AS `S`"),
        ("`航班`", "`h` AS `航班`"),
        ("s x", "`v` x"),
        ("orders TABLESAMPLE (1 ROWS)", "`o``1` TABLESAMPLE (1 ROWS) AS `orders`"),
        ("db.s", "db.s"),
        ("(SELECT METADATA$ACTION FROM s)", "(SELECT `METADATA$ACTION` FROM `v` AS `s`)"),
        ("(WITH s AS (SELECT 1) TABLE s)", "(WITH s AS (SELECT 1) TABLE s)"),
        ("(TABLE s)", "(TABLE `v`)"),
        ("u AS s", "u AS s"),
    ]
)


NOISE = [" ", "\n", "/* s ' */", "-- FROM s `\n", "\t\r\n"]


@given(
    columns=st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), max_size=4),
    noise=st.lists(st.sampled_from(NOISE), max_size=6),
    relations=st.lists(RELATIONS, min_size=1, max_size=5),
)
def test_bind_of_random_text_changes_only_the_references(
    columns: list[str], noise: list[str], relations: list[tuple[str, str]]
) -> None:
    quoted = [f"`{column.replace('`', '``')}`" for column in columns if column]
    gap = "".join(noise) or " "
    head = f"INSERT INTO{gap}t{gap}SELECT{gap}{', '.join([*quoted, '1'])}{gap}FROM "
    written = head + f"{gap},{gap}".join(text for text, _ in relations)
    expected = head + f"{gap},{gap}".join(text for _, text in relations)
    assert bound(written) == expected


# --- FROM ... INSERT


@pytest.mark.parametrize(
    ("sql", "target", "bound_text"),
    [
        (
            "FROM s INSERT INTO t SELECT id",
            "`t`",
            "FROM `v_s` AS `s` INSERT INTO t SELECT id",
        ),
        (
            "from s x INSERT OVERWRITE TABLE a.b (i) SELECT x.id, (SELECT max(n) FROM orders)"
            " WHERE x.METADATA$ACTION = 'INSERT' ORDER BY 1 LIMIT 3;",
            "`a`.`b`",
            "from `v_s` x INSERT OVERWRITE TABLE a.b (i) SELECT x.id, (SELECT max(n) FROM"
            " `v_orders` AS `orders`) WHERE x.`METADATA$ACTION` = 'INSERT' ORDER BY 1 LIMIT 3",
        ),
        (
            "WITH c AS (SELECT * FROM s) FROM c JOIN orders INSERT INTO t SELECT *",
            "`t`",
            "WITH c AS (SELECT * FROM `v_s` AS `s`) FROM c JOIN `v_orders` AS `orders`"
            " INSERT INTO t SELECT *",
        ),
        (
            "FROM s LATERAL VIEW explode(a) q AS y INSERT INTO delta.`/p/t` SELECT y, count(*)"
            " GROUP BY y",
            "delta.`/p/t`",
            "FROM `v_s` AS `s` LATERAL VIEW explode(a) q AS y INSERT INTO delta.`/p/t` SELECT y,"
            " count(*) GROUP BY y",
        ),
    ],
)
def test_insert_that_begins_with_from_is_an_insert(sql: str, target: str, bound_text: str) -> None:
    found = analyse(sql, STREAMS)

    assert (found.kind, found.target.sql) == (StatementKind.INSERT, target)
    assert bind(found, {name: f"v_{name}" for name in found.streams}) == bound_text


# --- a whole consumption


def statement(sql: str) -> Statement:
    return analyse(sql, STREAMS)


def test_plan_streams_gives_every_stream_once_in_order_of_appearance() -> None:
    statements = [
        statement("DELETE FROM t"),
        statement("INSERT INTO t SELECT * FROM orders JOIN s"),
        statement("INSERT INTO u TABLE s"),
    ]
    assert plan_streams(statements) == ("orders", "s")


def test_plan_streams_is_refused_if_no_statement_reads_a_stream() -> None:
    with pytest.raises(InvalidStatement, match="in which no statement reads a stream"):
        plan_streams([statement("DELETE FROM t"), statement("INSERT INTO t TABLE db.s")])


def test_plan_streams_without_a_statement_is_refused() -> None:
    with pytest.raises(InvalidStatement, match="has no statement"):
        plan_streams([])


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("INSERT INTO t SELECT * FROM order", "did you mean orders instead of order"),
        ("INSERT INTO t SELECT * FROM a JOIN ordrs", "did you mean orders instead of ordrs"),
        ("INSERT INTO t TABLE db.Orders", "write only orders"),
        ("CREATE TABLE t AS SELECT * FROM oders", "did you mean orders instead of oders"),
        ("FROM oders INSERT INTO t SELECT *", "did you mean orders instead of oders"),
        ("INSERT INTO orders_ SELECT * FROM x", "existing streams: orders, s"),
        ("WITH order AS (SELECT 1) INSERT INTO t TABLE order", "existing streams: orders"),
    ],
)
def test_plan_streams_names_the_stream_that_may_be_meant(sql: str, advice: str) -> None:
    names = ["s", "orders"]
    with pytest.raises(InvalidStatement, match=f"Fix: .*{advice}"):
        plan_streams([analyse(sql, names)], names)


def test_plan_streams_without_any_stream_says_to_create_one() -> None:
    with pytest.raises(
        InvalidStatement, match="create the stream first: the state folder has no streams"
    ):
        plan_streams([analyse("INSERT INTO t TABLE x", [])], [])
