"""Streams on views: the examples of Snowflake's document, and other features of views."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    ChangeTrackingDisabled,
    InvalidRange,
    InvalidRequest,
    NotADeltaTable,
    OffsetOf,
    Strategy,
    StreamStale,
    TableNotFound,
    Timestamp,
    UnsupportedView,
    Version,
)

TRACKED = "'delta.enableRowTracking' = 'true'"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> Iterator[StreamLab]:
    """The document's two tables, each with its first row, and a schema for views."""
    spark.sql("CREATE SCHEMA IF NOT EXISTS views_lab")
    spark.sql("USE views_lab")
    lab = StreamLab(spark, tmp_path)
    for table, column in (("orders", "order"), ("customers", "customer")):
        insert = f"INSERT INTO {{t}} VALUES (1, '{column}1')"
        lab.make(table, f"id INT, {column}_name STRING", insert, properties=TRACKED)
    yield lab
    spark.sql("USE default")
    spark.sql("DROP SCHEMA views_lab CASCADE")


@pytest.fixture
def own_settings(spark: SparkSession) -> Iterator[None]:
    """Restores the settings that the test changes."""
    yield
    for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled"):
        spark.conf.unset(name)


def view(lab: StreamLab, text: str, name: str = "v", columns: str = "") -> None:
    lab.sql(f"CREATE OR REPLACE VIEW {name} {columns} AS {text}")


def stream(lab: StreamLab, text: str, **options: Any) -> None:
    """Create a stream ``s`` on a view ``v``."""
    view(lab, text)
    lab.engine.create_stream("s", on_view="v", **options)


JOIN = "SELECT * FROM {orders} NATURAL JOIN {customers}"


@pytest.mark.thorough
def test_stream_on_a_join_view_returns_the_documented_rows(lab: StreamLab) -> None:
    stream(lab, JOIN)
    assert lab.seen("s") == []
    lab.sql("INSERT INTO {orders} VALUES (1, 'order2')")
    assert lab.seen("s") == [(1, "order2", "customer1", "INSERT", False)]
    lab.sql("INSERT INTO {customers} VALUES (1, 'customer2')")
    assert lab.seen("s") == [
        (1, "order1", "customer2", "INSERT", False),
        (1, "order2", "customer1", "INSERT", False),
        (1, "order2", "customer2", "INSERT", False),
    ]


@pytest.mark.thorough
def test_change_of_only_one_join_side_joins_the_current_other_side(lab: StreamLab) -> None:
    stream(lab, JOIN)
    lab.sql("UPDATE {customers} SET customer_name = 'renamed'")
    assert lab.seen("s") == [
        (1, "order1", "customer1", "DELETE", True),
        (1, "order1", "renamed", "INSERT", True),
    ]
    lab.sql("UPDATE {orders} SET order_name = 'better'")
    assert lab.seen("s") == [
        (1, "better", "renamed", "INSERT", True),
        (1, "order1", "customer1", "DELETE", True),
    ]


def test_explain_of_a_view_reports_how_each_of_its_tables_is_read(lab: StreamLab) -> None:
    stream(lab, JOIN)
    lab.sql("INSERT INTO {customers} VALUES (1, 'customer2')")
    plan = lab.engine.explain_stream("s")
    orders, customers = plan.tables
    assert (orders.table, customers.table) == (lab.name("orders"), lab.name("customers"))
    assert (orders.plan.strategy, orders.plan.file_count) == (Strategy.NOTHING, 0)
    assert (customers.plan.strategy, customers.plan.commit_count) == (Strategy.FILE_DIFFERENCE, 1)
    assert (plan.strategy, plan.file_count) == (Strategy.FILE_DIFFERENCE, 1)
    assert plan.size_bytes == customers.plan.size_bytes > 0
    lab.engine.create_stream("t", on_table=lab.path("orders"))
    assert lab.engine.explain_stream("t").tables == ()


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["SELECT * FROM {orders}", JOIN])
def test_maintenance_keeps_rows_that_an_append_only_stream_still_owes(
    lab: StreamLab, text: str
) -> None:
    stream(lab, text, mode="append_only")
    lab.sql("INSERT INTO {orders} VALUES (1, 'short')", "DELETE FROM {orders} WHERE id = 1")
    owed = lab.seen("s")
    assert [row[1] for row in owed] == ["short"]
    lab.engine.maintain_streams()
    assert lab.seen("s") == owed


@pytest.mark.thorough
def test_row_leaving_a_view_is_deleted_and_row_entering_it_is_inserted(
    lab: StreamLab,
) -> None:
    lab.sql("INSERT INTO {orders} VALUES (2, 'order2')")
    stream(lab, "SELECT id, upper(order_name) AS n FROM {orders} WHERE id > 1")
    lab.sql(
        "UPDATE {orders} SET id = 0 WHERE id = 2",
        "UPDATE {orders} SET id = 5 WHERE id = 1",
    )
    assert lab.seen("s") == [
        (2, "ORDER2", "DELETE", False),
        (5, "ORDER1", "INSERT", False),
    ]


@pytest.mark.thorough
def test_update_that_the_view_does_not_show_is_not_a_change(lab: StreamLab) -> None:
    stream(lab, "SELECT id FROM {orders}")
    lab.sql("UPDATE {orders} SET order_name = 'x'")
    assert lab.engine.stream_has_data("s", exact=False) is True
    assert lab.engine.stream_has_data("s") is False
    assert lab.seen("s") == []


def test_union_all_keeps_equal_rows_of_its_branches_apart(lab: StreamLab) -> None:
    stream(
        lab,
        "SELECT id, order_name AS n FROM {orders}"
        " UNION ALL SELECT id, customer_name FROM {customers}"
        " UNION ALL SELECT id + 0L, order_name FROM {orders} WHERE id = 7",
    )
    lab.sql("INSERT INTO {orders} VALUES (7, 'x')", "INSERT INTO {customers} VALUES (7, 'x')")
    changes = lab.changes("s")
    assert [(*change.values, change.action) for change in changes] == [(7, "x", "INSERT")] * 3
    assert len({change.row_id for change in changes}) == 3
    assert dict(lab.engine.read_stream("s").dtypes)["id"] == "bigint"


def test_nested_views_subqueries_ctes_and_renamed_columns_are_followed(lab: StreamLab) -> None:
    view(
        lab,
        "SELECT id, upper(order_name) AS u FROM {orders} WHERE id < 9",
        "shouting",
        "(k, `o n`)",
    )
    stream(
        lab,
        """
        WITH named AS (SELECT id, customer_name AS c FROM {customers})
        SELECT s.`o n`, x.c, x.* EXCEPT (c) -- {braces} do no harm
        FROM shouting s JOIN (SELECT * FROM named) AS x ON s.k = x.id
        CROSS JOIN {customers} AS other
        WHERE other.id = 1
        """.replace("{braces}", "{{braces}}"),
    )
    lab.sql("INSERT INTO {orders} VALUES (1, 'new')")
    assert lab.seen("s") == [("NEW", "customer1", 1, "INSERT", False)]


def test_self_join_returns_the_changes_of_both_sides(lab: StreamLab) -> None:
    lab.sql("INSERT INTO {orders} VALUES (2, 'order2')")
    stream(lab, "SELECT a.id AS a, b.id AS b FROM {orders} a, {orders} b WHERE a.id <> b.id")
    lab.sql("INSERT INTO {orders} VALUES (3, 'order3')", "DELETE FROM {orders} WHERE id = 1")
    assert [(change.values, change.action) for change in lab.changes("s")] == [
        ((1, 2), "DELETE"),
        ((2, 1), "DELETE"),
        ((2, 3), "INSERT"),
        ((3, 2), "INSERT"),
    ]


@pytest.mark.thorough
def test_append_only_stream_joins_inserted_rows_with_old_and_new_rows(lab: StreamLab) -> None:
    stream(lab, JOIN, mode="append_only")
    lab.sql(
        "UPDATE {customers} SET customer_name = 'renamed'",
        "INSERT INTO {orders} VALUES (1, 'order2')",
        "INSERT INTO {customers} VALUES (1, 'customer2')",
        "DELETE FROM {orders} WHERE order_name = 'order2'",
    )
    assert lab.seen("s") == [
        (1, "order1", "customer2", "INSERT", False),
        (1, "order2", "customer1", "INSERT", False),
        (1, "order2", "customer2", "INSERT", False),
    ]


@pytest.mark.thorough
def test_view_row_keeps_its_id_through_its_updates(lab: StreamLab) -> None:
    stream(lab, JOIN)
    lab.sql("UPDATE {orders} SET order_name = 'x'")
    first = {change.row_id for change in lab.changes("s")}
    lab.engine.advance_stream("s")
    lab.sql("UPDATE {customers} SET customer_name = 'y'")
    assert {change.row_id for change in lab.changes("s")} == first
    assert len(first) == 1


@pytest.mark.in_ci("databend")
@pytest.mark.parametrize("style", ["snowflake", "databend"])
def test_view_over_a_table_with_change_set_columns_can_have_a_stream(
    lab: StreamLab, style: str
) -> None:
    """Such a table has columns with the names that a change set adds."""
    lab.make("kept", "id INT, `METADATA$ACTION` STRING", properties=TRACKED)
    lab.sql("INSERT INTO {kept} VALUES (1, 'INSERT')")
    stream(lab, "SELECT id, `METADATA$ACTION` AS what FROM {kept}", column_style=style)
    lab.sql("INSERT INTO {kept} VALUES (2, 'DELETE')", "UPDATE {kept} SET id = 3 WHERE id = 1")
    assert lab.seen("s") == [
        (1, "INSERT", "DELETE", True),
        (2, "DELETE", "INSERT", False),
        (3, "INSERT", "INSERT", True),
    ]


def test_consumption_of_a_view_moves_the_offsets_of_all_its_tables(lab: StreamLab) -> None:
    stream(lab, JOIN)
    lab.make("log", "order_name STRING, customer_name STRING")
    lab.sql("INSERT INTO {orders} VALUES (1, 'order2')", "UPDATE {customers} SET id = 1")

    outcome = lab.consume("INSERT INTO {log} SELECT order_name, customer_name FROM s")

    assert lab.rows("log") == [("order2", "customer1")]
    (taken,) = outcome.streams
    assert [(table.table, table.through_version) for table in taken.tables] == [
        (lab.name("orders"), 2),
        (lab.name("customers"), 2),
    ]
    assert taken.rows == {"inserted": 1, "updated": 0, "deleted": 0}
    assert lab.engine.stream_has_data("s", exact=False) is False
    status = lab.engine.describe_stream("s")
    assert status.table_on == "`spark_catalog`.`views_lab`.`v`"
    assert [base.table for base in status.base_tables] == [
        lab.name("orders"),
        lab.name("customers"),
    ]


@pytest.mark.thorough
def test_changes_of_a_view_between_two_times_need_no_stream(lab: StreamLab) -> None:
    view(lab, JOIN)
    lab.sql("INSERT INTO {orders} VALUES (1, 'order2')")
    start = Timestamp(lab.committed_at("orders", 2))
    lab.sql("INSERT INTO {customers} VALUES (1, 'customer2')")
    end = Timestamp(lab.committed_at("customers", 2))
    lab.sql("INSERT INTO {orders} VALUES (1, 'order3')")
    found = lab.engine.changes("v", at=start, end=end).collect()
    assert sorted(row[:3] for row in found) == [
        (1, "order1", "customer2"),
        (1, "order2", "customer2"),
    ]
    with pytest.raises(InvalidRequest, match="its own versions"):
        lab.engine.changes("v", at=Version(1))


@pytest.mark.thorough
def test_stream_at_the_offset_of_another_view_stream_returns_its_changes(lab: StreamLab) -> None:
    stream(lab, JOIN)
    lab.sql("INSERT INTO {orders} VALUES (1, 'order2')")
    lab.engine.create_stream("s2", on_view="v", at=OffsetOf("s"))
    assert lab.seen("s2") == lab.seen("s") != []


@pytest.mark.thorough
def test_initial_rows_of_a_view_come_before_its_changes(lab: StreamLab) -> None:
    stream(lab, JOIN, show_initial_rows=True)
    lab.make("log", "order_name STRING, action STRING")
    lab.sql("INSERT INTO {orders} VALUES (1, 'order2')")
    assert lab.seen("s") == [(1, "order1", "customer1", "INSERT", False)]
    statement = "INSERT INTO {log} SELECT order_name, METADATA$ACTION FROM s"
    lab.consume(statement)
    assert lab.rows("log") == [("order1", "INSERT")]
    lab.consume(statement)
    assert lab.rows("log") == [("order1", "INSERT"), ("order2", "INSERT")]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT id, order_name AS n FROM {orders} GROUP BY id, order_name", "GROUP BY"),
        ("SELECT count(*) AS n FROM {orders}", "aggregate count"),
        ("SELECT DISTINCT id FROM {orders}", "DISTINCT"),
        ("SELECT o.id FROM {orders} o LEFT JOIN {customers} c ON o.id = c.id", "LEFT"),
        ("SELECT id FROM {orders} WHERE id IN (SELECT id FROM {customers})", "(?i)sub-?query"),
        ("SELECT id, rand() AS r FROM {orders}", "(?i)rand"),
        ("SELECT id FROM {orders} LIMIT 3", "LIMIT"),
    ],
)
def test_unsupported_view_is_refused_with_its_construct_and_position(
    lab: StreamLab, text: str, what: str
) -> None:
    view(lab, text)
    with pytest.raises(UnsupportedView, match=what) as refused:
        lab.engine.create_stream("s", on_view="v")
    assert "line 1, column" in str(refused.value)
    assert lab.engine.describe_streams() == []


def test_view_that_calls_a_user_defined_function_is_refused(lab: StreamLab) -> None:
    lab.sql("CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2")
    view(lab, "SELECT id AS twice,\n  Twice(id) AS t FROM {orders}", name="inside")
    view(lab, "SELECT * FROM inside")
    with pytest.raises(
        UnsupportedView, match=r"inside.* call of the .*function twice at line 2, column 3"
    ):
        lab.engine.create_stream("s", on_view="v")


def test_view_over_a_table_without_change_tracking_is_refused(lab: StreamLab) -> None:
    lab.make("plain", "id INT")
    view(lab, "SELECT * FROM {plain}")
    with pytest.raises(ChangeTrackingDisabled, match="plain"):
        lab.engine.create_stream("s", on_view="v")


def test_stream_on_a_missing_view_or_on_two_sources_is_refused(lab: StreamLab) -> None:
    with pytest.raises(TableNotFound):
        lab.engine.create_stream("s", on_view="nothing")
    with pytest.raises(InvalidRequest, match="one of on_table, on_view and on_files"):
        lab.engine.create_stream("s", on_view="v", on_table=lab.path("orders"))


@pytest.mark.thorough
def test_redefined_view_makes_its_stream_stale(lab: StreamLab) -> None:
    stream(lab, JOIN)
    view(lab, JOIN + " WHERE id > 0")
    with pytest.raises(StreamStale, match="has changed: its text"):
        lab.changes("s")
    lab.sql("DROP VIEW v")
    with pytest.raises(StreamStale, match="does not exist"):
        lab.changes("s")


@pytest.mark.thorough
def test_view_recreated_with_the_same_definition_keeps_its_stream(lab: StreamLab) -> None:
    stream(lab, "SELECT * FROM {orders} WHERE id > 1")
    lab.sql("INSERT INTO {orders} VALUES (2, 'b')", "DROP VIEW v")
    view(lab, "SELECT * FROM {orders}")
    lab.sql("INSERT INTO {orders} VALUES (3, 'c')", "DROP VIEW v")
    view(lab, "SELECT * FROM {orders} WHERE id > 1")

    assert lab.seen("s") == [(2, "b", "INSERT", False), (3, "c", "INSERT", False)]
    assert lab.engine.describe_stream("s").invalid_reason is None


@pytest.mark.thorough
def test_base_table_that_is_recreated_makes_the_stream_stale(lab: StreamLab) -> None:
    stream(lab, JOIN)
    lab.sql(
        "CREATE OR REPLACE TABLE {customers} USING delta TBLPROPERTIES"
        f" ({TRACKED}) AS SELECT 1 AS id, 'c' AS customer_name"
    )
    with pytest.raises(StreamStale, match="replaced"):
        lab.changes("s")
    assert "replaced" in (lab.engine.describe_stream("s").invalid_reason or "")


@pytest.mark.thorough
def test_column_added_to_a_table_leaves_a_view_of_all_columns_unchanged(lab: StreamLab) -> None:
    stream(lab, "SELECT * FROM {orders}")
    lab.sql(
        "ALTER TABLE {orders} ADD COLUMN note STRING", "INSERT INTO {orders} VALUES (2, 'b', 'n')"
    )
    assert lab.seen("s") == [(2, "b", "INSERT", False)]


def test_view_row_has_another_id_than_the_row_of_the_table(lab: StreamLab) -> None:
    stream(lab, "SELECT * FROM {orders}")
    lab.engine.create_stream("o", on_table=lab.path("orders"))
    lab.sql("INSERT INTO {orders} VALUES (2, 'b')")
    (of_view,), (of_table,) = lab.changes("s"), lab.changes("o")
    assert of_view.values == of_table.values
    assert of_view.row_id != of_table.row_id
    assert re.fullmatch("[0-9a-f]{32}", of_view.row_id)


@pytest.mark.thorough
@pytest.mark.parametrize("semantics", ["inserted", "surviving"])
def test_append_only_stream_joins_inserts_with_rows_at_the_offset(
    lab: StreamLab, semantics: str
) -> None:
    lab.sql("UPDATE {customers} SET customer_name = 'before'")
    stream(lab, JOIN, mode="append_only", append_semantics=semantics)
    lab.sql(
        "UPDATE {customers} SET customer_name = 'after'",
        "INSERT INTO {orders} VALUES (1, 'new')",
        "UPDATE {orders} SET order_name = 'latest' WHERE order_name = 'new'",
    )
    name = "new" if semantics == "inserted" else "latest"
    assert lab.seen("s") == [(1, name, "before", "INSERT", False)]


def test_append_only_view_shows_its_initial_rows_first(lab: StreamLab) -> None:
    stream(lab, JOIN, mode="append_only", show_initial_rows=True)
    lab.make("log", "id INT, order_name STRING, customer_name STRING")
    lab.sql("INSERT INTO {orders} VALUES (1, 'order2')")
    lab.consume("INSERT INTO {log} SELECT id, order_name, customer_name FROM s")
    assert lab.rows("log") == [(1, "order1", "customer1")]
    assert lab.seen("s") == [(1, "order2", "customer1", "INSERT", False)]


@pytest.mark.thorough
def test_bound_of_a_consumption_applies_to_each_table_of_a_view(lab: StreamLab) -> None:
    stream(lab, JOIN)
    lab.make("log", "id INT, order_name STRING, customer_name STRING")
    lab.sql(
        "INSERT INTO {orders} VALUES (1, 'order2')",
        "INSERT INTO {orders} VALUES (1, 'order3')",
        "INSERT INTO {customers} VALUES (1, 'customer2')",
    )
    insert = "INSERT INTO {log} SELECT id, order_name, customer_name FROM s"
    lab.consume(insert, max_commits=1)
    assert lab.rows("log") == [
        (1, "order1", "customer2"),
        (1, "order2", "customer1"),
        (1, "order2", "customer2"),
    ]
    lab.consume(insert, max_commits=1)
    assert lab.rows("log")[-2:] == [(1, "order3", "customer1"), (1, "order3", "customer2")]
    assert lab.engine.stream_has_data("s") is False


@pytest.mark.thorough
def test_stream_on_a_view_at_a_time_excludes_it_and_before_includes_it(lab: StreamLab) -> None:
    lab.sql("INSERT INTO {orders} VALUES (1, 'order2')")
    moment = Timestamp(lab.committed_at("orders", lab.version("orders")))
    view(lab, JOIN)
    lab.engine.create_stream("after", on_view="v", at=moment)
    lab.engine.create_stream("with_it", on_view="v", before=moment)
    assert lab.seen("after") == []
    assert lab.seen("with_it") == [(1, "order2", "customer1", "INSERT", False)]


def test_stream_on_a_view_at_a_version_is_refused(lab: StreamLab) -> None:
    view(lab, JOIN)
    with pytest.raises(InvalidRequest, match="its own versions"):
        lab.engine.create_stream("s", on_view="v", at=Version(1))


def test_view_of_a_non_delta_table_and_a_temporary_view_are_refused(
    lab: StreamLab,
) -> None:
    lab.sql(
        "CREATE TABLE flat USING parquet AS SELECT 1 AS id", "CREATE TEMP VIEW brief AS SELECT 1"
    )
    try:
        view(lab, "SELECT * FROM flat")
        with pytest.raises(NotADeltaTable, match="views_lab"):
            lab.engine.create_stream("s", on_view="v")
        with pytest.raises(TableNotFound, match="stays when the session ends"):
            lab.engine.create_stream("s", on_view="brief")
    finally:
        lab.sql("DROP VIEW brief")


@pytest.mark.thorough
def test_base_table_that_is_dropped_makes_the_stream_stale(lab: StreamLab) -> None:
    lab.sql(
        f"CREATE TABLE things (id INT) USING delta TBLPROPERTIES ({TRACKED})",
        "INSERT INTO things VALUES (1)",
    )
    stream(lab, "SELECT * FROM things")
    lab.sql("DROP TABLE things")
    with pytest.raises(StreamStale, match="things"):
        lab.changes("s")
    assert "is missing" in (lab.engine.describe_stream("s").invalid_reason or "")


def test_redefined_nested_view_makes_the_stream_stale(
    lab: StreamLab,
) -> None:
    view(lab, "SELECT * FROM {orders}", name="inside")
    stream(lab, "SELECT * FROM inside")
    assert lab.engine.describe_stream("s").invalid_reason is None
    view(lab, "SELECT * FROM {orders} WHERE id > 0", name="inside")
    with pytest.raises(StreamStale, match="has changed: its text"):
        lab.changes("s")
    (status,) = lab.engine.describe_streams()
    assert status.stale is True
    assert "has changed: its text" in (status.invalid_reason or "")


def test_name_in_a_view_that_resolves_elsewhere_makes_the_stream_stale(
    lab: StreamLab,
) -> None:
    location = lab.path("orders")
    lab.sql(f"CREATE TABLE named USING delta LOCATION '{location}'")
    stream(lab, "SELECT id FROM named")
    lab.sql(
        "DROP TABLE named", f"CREATE TABLE named USING delta LOCATION '{lab.path('customers')}'"
    )
    with pytest.raises(StreamStale, match="another table"):
        lab.changes("s")


def test_view_that_is_renamed_leaves_its_stream_stale(lab: StreamLab) -> None:
    stream(lab, "SELECT * FROM {orders}")
    lab.sql("ALTER VIEW v RENAME TO w")
    with pytest.raises(StreamStale, match="does not exist"):
        lab.changes("s")
    lab.sql("ALTER VIEW w RENAME TO v")
    assert lab.changes("s") == []


@pytest.mark.thorough
def test_show_reports_the_offset_of_each_table_of_a_view(lab: StreamLab) -> None:
    stream(lab, JOIN)
    lab.sql("INSERT INTO {orders} VALUES (2, 'b')")
    lab.engine.advance_stream("s")
    (row,) = lab.engine.show_streams().collect()
    assert (row.offset, row.offsets) == (None, "2, 1")
    assert row.base_tables == f"{lab.name('orders')}, {lab.name('customers')}"


@pytest.mark.thorough
def test_reordered_table_columns_leave_a_view_of_all_columns_unchanged(
    lab: StreamLab,
) -> None:
    view(lab, "SELECT * FROM {orders}", "inner_view", "(k, n)")
    stream(lab, "SELECT * FROM inner_view JOIN {orders} ON k = id")
    lab.sql(
        "ALTER TABLE {orders} ALTER COLUMN order_name FIRST",
        "INSERT INTO {orders} (id, order_name) VALUES (2, 'b')",
    )
    assert lab.seen("s") == [(2, "b", 2, "b", "INSERT", False)]
    lab.engine.create_stream("initial", on_view="v", show_initial_rows=True)
    assert lab.seen("initial") == [
        (i, n, i, n, "INSERT", False) for i, n in ((1, "order1"), (2, "b"))
    ]


@pytest.mark.thorough
def test_view_with_schema_evolution_gets_columns_added_to_its_table(lab: StreamLab) -> None:
    lab.sql("CREATE VIEW v WITH SCHEMA EVOLUTION AS SELECT * FROM {orders}")
    lab.engine.create_stream("s", on_view="v")
    lab.sql(
        "ALTER TABLE {orders} ADD COLUMN note STRING",
        "INSERT INTO {orders} VALUES (2, 'b', 'n')",
        "UPDATE {orders} SET order_name = 'c' WHERE id = 1",
    )
    expected = [
        (1, "c", None, "INSERT", True),
        (1, "order1", None, "DELETE", True),
        (2, "b", "n", "INSERT", False),
    ]
    assert lab.seen("s") == expected
    assert lab.seen("s") == expected


def test_view_is_read_under_the_settings_of_its_creation(
    lab: StreamLab, own_settings: None
) -> None:
    lab.make("t", "id INT, at TIMESTAMP, n STRING", properties=TRACKED)
    lab.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    view(lab, "SELECT id, CAST(at AS DATE) AS day, n FROM {t}", "days")
    lab.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    lab.spark.conf.set("spark.sql.ansi.enabled", "false")
    stream(
        lab,
        "SELECT d.id, day(d.day) AS day, hour(t.at) AS hour, CAST(d.n AS INT) AS n"
        " FROM days AS d JOIN {t} AS t ON d.id = t.id",
    )
    lab.spark.conf.set("spark.sql.session.timeZone", "UTC")
    lab.spark.conf.set("spark.sql.ansi.enabled", "true")
    lab.sql("INSERT INTO {t} VALUES (1, TIMESTAMP '2024-01-01T20:00:00Z', 'x')")
    assert lab.seen("s") == [(1, 2, 15, None, "INSERT", False)]
    assert tuple(lab.spark.table("v").collect()[0]) == (1, 2, 15, None)
    assert lab.spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.thorough
def test_view_recreated_under_other_settings_makes_its_stream_stale(
    lab: StreamLab, own_settings: None
) -> None:
    stream(lab, JOIN)
    lab.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    view(lab, JOIN)
    with pytest.raises(StreamStale, match="has changed: its text"):
        lab.changes("s")


def test_view_with_a_default_collation_is_refused(lab: StreamLab) -> None:
    lab.sql("CREATE VIEW v DEFAULT COLLATION UTF8_LCASE AS SELECT * FROM {orders}")
    with pytest.raises(UnsupportedView, match="UTF8_LCASE"):
        lab.engine.create_stream("s", on_view="v")


def test_added_column_that_changes_the_view_makes_its_stream_stale(lab: StreamLab) -> None:
    stream(lab, JOIN)
    lab.sql("ALTER TABLE {orders} ADD COLUMN note STRING")
    with pytest.raises(StreamStale, match="NATURAL JOIN"):
        lab.changes("s")
    lab.engine.advance_stream("s")
    lab.sql("INSERT INTO {orders} VALUES (1, 'order2', 'n')")
    assert lab.seen("s") == [(1, "order2", "customer1", "INSERT", False)]
    view(lab, "SELECT id + 1 AS next, next * 2 AS twice FROM {customers}", "lateral")
    lab.engine.create_stream("l", on_view="lateral")
    lab.sql("ALTER TABLE {customers} ADD COLUMN other INT")
    assert lab.seen("l") == []
    lab.sql("ALTER TABLE {customers} ADD COLUMN next INT")
    with pytest.raises(StreamStale, match="next, which is an alias or a column"):
        lab.changes("l")


def test_column_that_may_shadow_a_field_makes_the_stream_of_a_view_stale(
    lab: StreamLab,
) -> None:
    lab.make("t", "id INT, o STRUCT<note: STRING>", properties=TRACKED)
    stream(lab, "SELECT o.note AS n FROM {orders} AS o JOIN {t} AS x ON o.id = x.id")
    lab.sql("INSERT INTO {t} VALUES (1, named_struct('note', 'field'))")
    assert lab.seen("s") == [("field", "INSERT", False)]
    lab.sql("ALTER TABLE {t} ADD COLUMN note STRING")
    assert lab.seen("s") == [("field", "INSERT", False)]
    lab.sql("ALTER TABLE {orders} ADD COLUMN note STRING")
    with pytest.raises(StreamStale, match=r"o\.note, which is a field or a column"):
        lab.changes("s")


@pytest.mark.in_ci("dropped and added-standard")
@pytest.mark.parametrize("mode", ["standard", "append_only"])
@pytest.mark.parametrize(
    ("columns", "values", "properties", "text", "changes", "name"),
    [
        (
            "id INT, c INT",
            "(1, 1)",
            "'delta.columnMapping.mode' = 'name'",
            "SELECT id FROM {t} WHERE c = 1",
            ["ALTER TABLE {t} DROP COLUMN c", "ALTER TABLE {t} ADD COLUMN c INT"],
            "c",
        ),
        (
            "id INT, a INT, b INT",
            "(1, 2, 3)",
            "'delta.columnMapping.mode' = 'name'",
            "SELECT a FROM {t}",
            [
                "ALTER TABLE {t} RENAME COLUMN a TO x",
                "ALTER TABLE {t} RENAME COLUMN b TO a",
                "ALTER TABLE {t} RENAME COLUMN x TO b",
            ],
            "a",
        ),
        (
            "id INT, f FLOAT",
            "(1, 0.1)",
            "'delta.enableTypeWidening' = 'true'",
            "SELECT id, CAST(f AS STRING) AS s FROM {t}",
            ["ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE"],
            "f",
        ),
    ],
    ids=["dropped and added", "swapped", "widened"],
)
def test_different_column_under_the_same_name_makes_a_view_stream_stale(
    lab: StreamLab,
    mode: str,
    columns: str,
    values: str,
    properties: str,
    text: str,
    changes: list[str],
    name: str,
) -> None:
    lab.make("t", columns, properties=f"{TRACKED}, {properties}")
    lab.sql(f"INSERT INTO {{t}} VALUES {values}")
    view(lab, "SELECT id FROM {t}", "ids")
    lab.engine.create_stream("i", on_view="ids")
    stream(lab, text, mode=mode)
    lab.sql(*changes)
    # The stream stays before the commit that makes it stale, so no change is skipped silently.
    assert lab.engine.maintain_streams().skipped == ()
    with pytest.raises(StreamStale, match=f"it has {name}, which is a different column now"):
        lab.changes("s")
    lab.sql("DELETE FROM {t} WHERE id = 1")
    with pytest.raises(StreamStale, match="has other columns"):
        lab.changes("s")
    lab.engine.advance_stream("s")
    assert lab.seen("s") == []
    # A view that does not name the column keeps its meaning.
    assert lab.seen("i") == [(1, "DELETE", False)]


@pytest.mark.thorough
def test_char_columns_are_compared_as_the_view_compares_them(lab: StreamLab) -> None:
    lab.make("short", "id INT, c CHAR(3)", properties=TRACKED)
    lab.make("long", "id INT, c CHAR(5)", properties=TRACKED)
    view(lab, "SELECT id AS k, c AS l FROM {long}", "named")
    stream(
        lab,
        "SELECT x.id, k FROM (SELECT * FROM {short} WHERE c = 'a' UNION ALL TABLE {short}) AS x"
        " JOIN named ON x.c = l",
    )
    lab.sql("INSERT INTO {short} VALUES (1, 'a')", "INSERT INTO {long} VALUES (2, 'a')")
    assert lab.seen("s") == [(1, 2, "INSERT", False)] * 2
    assert lab.spark.table("v").count() == 2
    lab.engine.advance_stream("s")
    lab.sql("DELETE FROM {short}")
    assert lab.seen("s") == [(1, 2, "DELETE", False)] * 2


NOTES = ["SELECT * FROM {orders}", "SELECT upper(note) AS n FROM {orders}"]


@pytest.mark.parametrize("text", NOTES)
def test_initial_rows_from_before_a_column_that_the_view_needs_are_refused(
    lab: StreamLab, text: str
) -> None:
    before = Timestamp(lab.committed_at("orders", 1))
    lab.sql(
        "ALTER TABLE {orders} ADD COLUMN note STRING",
        "INSERT INTO {orders} VALUES (2, 'b', 'n')",
    )
    view(lab, text)
    with pytest.raises(InvalidRange, match=r"(no column|name) `?note"):
        lab.engine.create_stream("s", on_view="v", at=before, show_initial_rows=True)
    lab.engine.create_stream("s", on_view="v", at=before)
    assert [change.values[-1].upper() for change in lab.changes("s")] == ["N"]


@pytest.mark.thorough
def test_condition_is_not_evaluated_on_a_mix_of_old_and_new_rows(
    lab: StreamLab,
) -> None:
    """Neither end of the view divides by zero; a new order with an old customer would."""
    stream(
        lab,
        "SELECT o.id, c.id AS other FROM {orders} o JOIN {customers} c"
        " ON length(o.order_name) > 0 WHERE 10 / (o.id - c.id - 1) < 100",
    )
    lab.sql("UPDATE {orders} SET id = 2", "UPDATE {customers} SET id = 3")
    assert lab.seen("s") == [(1, 1, "DELETE", True), (2, 3, "INSERT", True)]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["standard", "append_only"])
def test_char_columns_are_compared_in_old_rows_as_in_current_ones(
    lab: StreamLab, mode: str
) -> None:
    lab.make("t", "id INT, c CHAR(5), s STRUCT<c: CHAR(3)>", properties=TRACKED)
    lab.sql("INSERT INTO {t} VALUES (1, 'ab', named_struct('c', 'x'))")
    stream(lab, "SELECT id FROM {t} WHERE c = 'ab' AND s.c = 'x  '", mode=mode)
    lab.sql(
        "INSERT INTO {t} VALUES (2, 'ab', named_struct('c', 'x'))",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO {t} VALUES (3, 'ab', named_struct('c', 'x'))",
        "DELETE FROM {t} WHERE id < 3",
    )
    found = {
        "standard": [(1, "DELETE", False), (3, "INSERT", False)],
        "append_only": [(2, "INSERT", False), (3, "INSERT", False)],
    }
    assert lab.seen("s") == found[mode]
    lab.sql("DELETE FROM {t}")
    found["standard"] = [(1, "DELETE", False)]
    assert lab.seen("s") == found[mode]
