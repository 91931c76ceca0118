"""Transactions: the statements of a block see the same records and consume them together."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenes import (
    DIM,
    DIM_ROWS,
    FIRST,
    LOG,
    NUMBERS,
    OTHER,
    begun,
    contents,
    is_untouched,
    offset,
    phase,
    transitions,
)
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    Engine,
    InvalidRequest,
    InvalidStatement,
    StatementFailed,
    StreamAccessDenied,
    StreamNotFound,
    StreamStale,
    TableNotFound,
)
from airflow_provider_cdc.engine.core.model.stream import Phase
from airflow_provider_cdc.engine.spark.session.session_settings import settings


@pytest.mark.thorough
def test_transaction_statements_see_the_same_records_and_consume_them_once(lab: StreamLab) -> None:
    with begun(lab) as tx:
        tx.sql(lab.text(LOG))
        lab.sql("INSERT INTO {src} VALUES (3, '30')")
        tx.sql(lab.text(OTHER))
        assert tx.stream("S").count() == 2
        assert phase(lab) is Phase.APPLYING

    assert lab.rows("log") == lab.rows("other") == FIRST
    assert transitions(lab) == ["created", "begun", "extended", "committed"]
    assert tx.outcome.streams[0].rows == {"inserted": 2, "updated": 0, "deleted": 0}
    assert [item.index for item in tx.outcome.statements] == [0, 1]
    assert lab.engine._parts.catalog.get_stream("s").last_outcome == tx.outcome
    assert lab.seen("s") == [(3, "30", "INSERT", False)]


@pytest.mark.thorough
def test_transaction_records_end_at_its_start_even_for_streams_used_late(lab: StreamLab) -> None:
    with begun(lab) as tx:
        lab.sql("INSERT INTO {src} VALUES (3, '30')", "INSERT INTO {dim} VALUES (2, 200)")
        tx.sql(lab.text(LOG))
        tx.sql(lab.text(DIM))

    assert (lab.rows("log"), lab.rows("other")) == (FIRST, DIM_ROWS)
    assert (offset(lab, "s"), offset(lab, "d")) == (1, 1)
    assert lab.engine.stream_has_data("s")
    assert lab.engine.stream_has_data("d")


@pytest.mark.thorough
def test_two_streams_that_join_at_different_times_advance_together(lab: StreamLab) -> None:
    with begun(lab) as tx:
        tx.stream("s")
        tx.sql(lab.text(DIM))
        assert (offset(lab, "s"), offset(lab, "d")) == (0, 0)

    assert (offset(lab, "s"), offset(lab, "d")) == (1, 1)
    assert transitions(lab, "s") == ["created", "begun", "extended", "committed"]
    assert transitions(lab, "d") == ["created", "begun", "committed"]
    nonces = {lab.engine._parts.catalog.stream_history(name)[-1].nonce for name in ("s", "d")}
    assert len(nonces) == 1
    assert [item.name for item in tx.outcome.streams] == ["s", "d"]


def test_own_writes_to_a_source_are_seen_by_the_next_transaction(lab: StreamLab) -> None:
    with begun(lab) as tx:
        tx.sql(lab.text("INSERT INTO {src} SELECT id + 10, v FROM s"))
        tx.sql(lab.text(LOG))
        assert tx.stream("s").count() == 2

    assert lab.rows("log") == FIRST
    assert lab.seen("s") == [(11, "10", "INSERT", False), (12, "20", "INSERT", False)]


def test_query_in_a_transaction_reads_the_records_and_consumes_nothing(lab: StreamLab) -> None:
    with begun(lab) as tx:
        lab.sql("INSERT INTO {src} VALUES (3, '30')")
        rows = tx.sql("SELECT id, METADATA$ACTION FROM s ORDER BY id;").collect()
        assert [tuple(row) for row in rows] == [(1, "INSERT"), (2, "INSERT")]
        assert tx.sql("SELECT 1 AS one").collect()[0].one == 1

    assert tx.outcome is None
    assert is_untouched(lab)
    assert transitions(lab) == ["created"]


def test_stream_that_is_only_queried_keeps_its_offset(lab: StreamLab) -> None:
    with begun(lab) as tx:
        assert tx.sql("SELECT * FROM d").count() == 1
        tx.sql(lab.text(LOG))

    assert (offset(lab, "s"), offset(lab, "d")) == (1, 0)


def test_transaction_that_does_nothing_ends_silently(lab: StreamLab) -> None:
    with begun(lab) as tx:
        pass

    assert tx.outcome is None
    assert is_untouched(lab)


@pytest.mark.thorough
def test_dataframe_of_a_stream_is_written_and_consumed(lab: StreamLab) -> None:
    with begun(lab) as tx:
        rows = tx.stream("s").selectExpr("`METADATA$ACTION` AS action", "v", "id")
        outcome = tx.write(rows, lab.path("log"))
        assert outcome.metrics["numOutputRows"] == 2
        tx.write(rows.where("id = 2"), lab.name("other"), mode="append")

    assert lab.rows("log") == FIRST
    assert lab.rows("other") == FIRST[1:]
    assert lab.engine.stream_has_data("s") is False


@pytest.mark.thorough
def test_dataframe_written_with_overwrite_replaces_the_target_rows(lab: StreamLab) -> None:
    lab.sql("INSERT INTO {log} VALUES (7, 'old', 'x')")
    with pytest.raises(ZeroDivisionError), begun(lab) as tx:
        rows = tx.sql("SELECT id, v, METADATA$ACTION AS action FROM s")
        tx.write(rows, lab.path("log"), mode="overwrite")
        assert lab.rows("log") == FIRST
        _ = 1 / 0
    assert lab.rows("log") == [(7, "old", "x")]

    with begun(lab) as tx:
        rows = tx.sql("SELECT id, v, METADATA$ACTION AS action FROM s")
        tx.write(rows, lab.path("log"), mode="overwrite")

    assert lab.rows("log") == FIRST
    assert lab.engine.stream_has_data("s") is False


def test_dataframe_is_stored_by_names_and_fails_if_a_value_does_not_fit(lab: StreamLab) -> None:
    lab.make("place", "id SMALLINT, p STRUCT<city: STRING, zip: INT>")
    named = "struct(40000L AS zip, v AS city) AS p"
    lenient = {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.storeAssignmentPolicy": "LEGACY",
    }
    with begun(lab) as tx:
        rows = tx.stream("s")
        tx.write(rows.selectExpr(named, "id AS ID"), lab.path("place"))
        for bad, message in {
            "struct(v AS city) AS p": r"field p\.zip",
            "id AS other": "other",
        }.items():
            with pytest.raises(InvalidRequest, match=message):
                tx.write(rows.selectExpr(bad), lab.path("place"))
    assert lab.rows("place") == [(1, ("10", 40000)), (2, ("20", 40000))]

    lab.sql("INSERT INTO {src} VALUES (40000, 'x')")
    with (
        settings(lab.spark, lenient),
        pytest.raises(StatementFailed, match="column id: expected a value of smallint"),
        begun(lab) as tx,
    ):
        tx.write(tx.stream("s").selectExpr("id"), lab.path("place"))
    assert len(lab.rows("place")) == 2
    assert lab.engine.stream_has_data("s")


@pytest.mark.thorough
def test_writing_the_rows_of_a_query_uses_the_streams_that_it_reads(lab: StreamLab) -> None:
    with begun(lab) as tx:
        joined = tx.sql("SELECT s.id, s.v, s.METADATA$ACTION AS action FROM s").join(
            tx.sql("SELECT id FROM d"), "id"
        )
        tx.write(joined, lab.path("log"))

    assert lab.rows("log") == FIRST[:1]
    assert (offset(lab, "s"), offset(lab, "d")) == (1, 1)


def test_statement_on_a_temporary_view_of_a_stream_consumes_the_stream(lab: StreamLab) -> None:
    with begun(lab) as tx:
        tx.sql("SELECT id, v, METADATA$ACTION AS action FROM s").createOrReplaceTempView("picked")
        assert tx.sql("SELECT * FROM d").count() == 1
        tx.sql(lab.text("INSERT INTO {log} SELECT * FROM picked"))
    lab.spark.catalog.dropTempView("picked")

    assert lab.rows("log") == FIRST
    assert (offset(lab, "s"), offset(lab, "d")) == (1, 0)


@pytest.mark.thorough
def test_create_table_as_is_emptied_if_its_transaction_fails(lab: StreamLab) -> None:
    create = lab.text("CREATE TABLE {made} USING delta AS SELECT id, v FROM s")
    more = lab.text("INSERT INTO {made} SELECT id + 10, v FROM s")
    with pytest.raises(ZeroDivisionError), begun(lab) as tx:
        tx.sql(create)
        tx.sql(more)
        _ = 1 / 0
    assert lab.rows("made") == []

    with begun(lab) as tx:
        tx.sql(create)
        tx.sql(more)

    assert [row[0] for row in lab.rows("made")] == [1, 11, 12, 2]


@pytest.mark.thorough
def test_create_table_as_holds_the_records_up_to_the_transaction_start(lab: StreamLab) -> None:
    with begun(lab) as tx:
        lab.sql("INSERT INTO {src} VALUES (3, '30')")
        tx.sql(lab.text("CREATE TABLE {made} USING delta AS SELECT id FROM s"))
    assert lab.rows("made") == [(1,), (2,)]


@pytest.mark.thorough
def test_transactions_of_the_snowflake_example_read_the_documented_rows(lab: StreamLab) -> None:
    """Snowflake, repeatable read: T1 queries, updates the source and queries again; T2 begins
    later.
    """
    query = "SELECT id, v, METADATA$ACTION AS action FROM s ORDER BY id"
    with begun(lab) as first:
        before = first.sql(query).collect()
        first.sql(lab.text(LOG))
        lab.sql("INSERT INTO {src} VALUES (3, 'by somebody else')")
        first.sql(lab.text("UPDATE {src} SET v = 'updated' WHERE id = 1"))
        assert first.sql(query).collect() == before
    assert [tuple(row) for row in before] == FIRST
    with begun(lab) as second:
        assert [tuple(row) for row in second.sql(query).collect()] == [
            (1, "10", "DELETE"),
            (1, "updated", "INSERT"),
            (3, "by somebody else", "INSERT"),
        ]


def test_stream_renamed_during_a_transaction_keeps_its_name_in_the_block(
    lab: StreamLab,
) -> None:
    with begun(lab) as tx:
        lab.engine.rename_stream("s", "another")
        assert tx.stream("s").count() == 2
        tx.sql(lab.text(LOG))

    assert lab.rows("log") == FIRST
    assert offset(lab, "another") == 1


@pytest.mark.thorough
def test_exception_in_the_block_undoes_all_statements_and_consumes_nothing(lab: StreamLab) -> None:
    with pytest.raises(ZeroDivisionError), begun(lab) as tx:
        tx.sql(lab.text(LOG))
        tx.sql(lab.text("DELETE FROM {log} WHERE id = 1"))
        tx.sql(lab.text(DIM))
        tx.sql(lab.text(LOG))
        _ = 1 / 0

    assert tx.outcome is None
    assert is_untouched(lab)
    assert transitions(lab)[-2:] == ["aborting", "aborted"]
    with begun(lab) as tx:
        tx.sql(lab.text(LOG))
    assert lab.rows("log") == FIRST


@pytest.mark.thorough
def test_failed_statement_undoes_the_transaction_even_if_the_block_goes_on(
    three: StreamLab,
) -> None:
    found = contents(three, "log", "numbers")
    with pytest.raises(StatementFailed, match=r"(?s)statement 2 on .*CAST_INVALID_INPUT"):  # noqa: SIM117
        with begun(three) as tx:
            tx.sql(three.text(LOG))
            with pytest.raises(StatementFailed):
                tx.sql(three.text(NUMBERS))
            assert contents(three, "log", "numbers") == found
            with pytest.raises(InvalidRequest, match="it failed"):
                tx.sql(three.text(LOG))

    assert contents(three, "log", "numbers") == found
    assert (offset(three), phase(three)) == (0, Phase.IDLE)


def test_refused_statement_leaves_the_transaction_unchanged(lab: StreamLab) -> None:
    refused = {
        "INSERT INTO {log} SELECT nope FROM s": InvalidStatement,
        "INSERT INTO {missing} SELECT id FROM s": TableNotFound,
        "INSERT INTO s SELECT * FROM d": InvalidStatement,
        "DROP TABLE {log}": InvalidStatement,
        LOG + "; " + LOG: InvalidStatement,
        "FROM s INSERT INTO {log} SELECT * INSERT INTO {log} SELECT *": InvalidStatement,
        "CREATE TABLE {log} AS SELECT * FROM s": InvalidStatement,
    }
    with begun(lab) as tx:
        tx.sql(lab.text(LOG))
        for text, error in refused.items():
            with pytest.raises(error):
                tx.sql(lab.text(text))
        with pytest.raises(InvalidStatement, match=r"VIEW_NOT_FOUND.*did you mean s instead of"):
            tx.sql("SELECT * FROM ss")
        with pytest.raises(StreamNotFound):
            tx.stream("missing")
        with pytest.raises(InvalidRequest, match="append, overwrite"):
            tx.write(lab.spark.range(1), lab.path("log"), mode="ignore")

    assert lab.rows("log") == FIRST
    assert len(tx.outcome.statements) == 1


@pytest.mark.parametrize("text", ["DELETE FROM {log}", "INSERT INTO {log} VALUES (1, 'a', 'b')"])
def test_statement_before_any_stream_is_used_is_refused(lab: StreamLab, text: str) -> None:
    with begun(lab) as tx:
        with pytest.raises(InvalidStatement, match=r"use a stream first.*tx\.stream"):
            tx.sql(lab.text(text))
        with pytest.raises(InvalidStatement, match="use a stream first"):
            tx.write(lab.spark.range(1), lab.path("log"))
        tx.stream("s")
        tx.sql(lab.text("INSERT INTO {log} VALUES (1, 'a', 'b')"))

    assert lab.rows("log") == [(1, "a", "b")]
    assert lab.engine.stream_has_data("s") is False


def test_ended_transaction_refuses_further_calls(lab: StreamLab) -> None:
    with begun(lab) as tx:
        tx.sql(lab.text(LOG))

    rows = lab.spark.range(1)
    for act in (lambda: tx.sql("SELECT 1"), lambda: tx.stream("s"), lambda: tx.write(rows, "t")):
        with pytest.raises(InvalidRequest, match=r"of me: cannot be used any more.*has ended"):
            act()
    assert lab.rows("log") == FIRST


def test_unreadable_source_fails_only_the_stream_that_reads_it(lab: StreamLab) -> None:
    Path(lab.path("dim")).rename(lab.path("elsewhere"))
    with begun(lab) as tx:
        tx.sql(lab.text(LOG))
        with pytest.raises(StreamStale, match="stream d: is stale"):
            tx.stream("d")

    assert lab.rows("log") == FIRST


@pytest.mark.thorough
def test_transaction_within_bounds_takes_whole_commits_and_leaves_the_rest(lab: StreamLab) -> None:
    lab.sql("INSERT INTO {src} VALUES (3, '30')", "INSERT INTO {src} VALUES (4, '40')")
    with lab.engine.transaction(consumer="me", max_commits=2) as tx:
        tx.sql(lab.text(LOG))

    assert [row[0] for row in lab.rows("log")] == [1, 2, 3]
    assert [row[0] for row in lab.seen("s")] == [4]


@pytest.mark.thorough
def test_initial_rows_are_the_records_of_only_the_first_transaction(lab: StreamLab) -> None:
    lab.sql("INSERT INTO {src} VALUES (3, '30')")
    lab.engine.create_stream("initial", on_table=lab.path("src"), show_initial_rows=True)
    insert = lab.text("INSERT INTO {log} SELECT id, v, METADATA$ACTION FROM initial")
    with begun(lab) as tx:
        lab.sql("DELETE FROM {src} WHERE id = 1")
        tx.sql(insert)
    assert lab.rows("log") == [*FIRST, (3, "30", "INSERT")]

    with begun(lab) as tx:
        tx.sql(insert)

    assert lab.rows("log") == sorted([*FIRST, (3, "30", "INSERT"), (1, "10", "DELETE")])


@pytest.mark.thorough
def test_stream_on_a_view_ends_at_the_transaction_start_in_each_table(lab: StreamLab) -> None:
    lab.sql("CREATE VIEW numbered AS SELECT id, v, n FROM {src} NATURAL JOIN {dim}")
    try:
        lab.engine.create_stream("w", on_view="numbered")
        lab.sql("INSERT INTO {src} VALUES (1, '11')")
        with begun(lab) as tx:
            lab.sql("INSERT INTO {dim} VALUES (2, 200)")
            tx.sql(lab.text("INSERT INTO {log} SELECT id, v, CAST(n AS STRING) FROM w"))
            tx.sql(lab.text("INSERT INTO {src} SELECT id + 1, v FROM w"))
        assert lab.rows("log") == [(1, "11", "100")]

        found = [row[:3] for row in lab.seen("w")]
    finally:
        lab.sql("DROP VIEW numbered")
    assert found == [(2, "11", 200), (2, "20", 200)]


def test_transaction_of_a_reader_can_query_but_not_consume(lab: StreamLab) -> None:
    lab.engine.alter_stream("s", readers=["reader"], consumers=[])
    state = str(lab.root / "state")
    with begun(lab, engine=Engine(lab.spark, state, principal="reader")) as tx:
        assert tx.sql("SELECT * FROM s").count() == 2
        for act in (lambda: tx.stream("s"), lambda: tx.sql(lab.text(LOG))):
            with pytest.raises(StreamAccessDenied, match="may not consume"):
                act()
        rows = tx.sql("SELECT id, v, METADATA$ACTION AS action FROM s")
        with pytest.raises(StreamAccessDenied, match="may not consume"):
            tx.write(rows, lab.path("log"))
    with (
        begun(lab, engine=Engine(lab.spark, state, principal="nobody")) as tx,
        pytest.raises(StreamAccessDenied, match="may not read"),
    ):
        tx.sql("SELECT * FROM s")

    assert is_untouched(lab)


@pytest.mark.thorough
def test_stream_on_files_ends_with_the_files_at_the_transaction_start(lab: StreamLab) -> None:
    folder = lab.root / "inbox"
    folder.mkdir()
    lab.engine.create_stream(
        "f",
        on_files=str(folder),
        file_format="csv",
        file_schema="id INT, v STRING",
        mode="insert_only",
    )
    (folder / "a.csv").write_text("1,10\n2,20\n")
    insert = lab.text("INSERT INTO {log} SELECT id, v, METADATA$ACTION FROM f")
    with begun(lab) as tx:
        (folder / "b.csv").write_text("3,30\n")
        tx.sql(insert)
    assert lab.rows("log") == FIRST

    with begun(lab) as tx:
        tx.sql(insert)

    assert lab.rows("log") == [*FIRST, (3, "30", "INSERT")]
