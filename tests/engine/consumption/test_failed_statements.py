"""After a failed statement nothing remains, or a consumption that names what it needs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from scenes import (
    LOG,
    NUMBERS,
    SUMS,
    TRACKED,
    before,
    contents,
    crash,
    crash_after_an_undo_that_met_another,
    offset,
    phase,
    transitions,
)
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    ConsumptionOpen,
    InvalidStatement,
    NotADeltaTable,
    Progress,
    ProtocolPoint,
    StatementFailed,
)
from airflow_provider_cdc.engine.core.model.stream import Phase
from airflow_provider_cdc.engine.spark.consumption.statement_writer import SparkWriter

AT_ONCE = "'delta.deletedFileRetentionDuration' = 'interval 0 seconds'"

BY_NAME = "INSERT INTO by_name SELECT id, v, METADATA$ACTION FROM s"


@pytest.mark.thorough
def test_failed_single_statement_leaves_target_and_offset_unchanged(three: StreamLab) -> None:
    found = contents(three, "numbers")

    with pytest.raises(
        StatementFailed, match=r"(?s)statement 1 of 1 on .*numbers.*CAST_INVALID_INPUT"
    ) as caught:
        three.consume(NUMBERS)

    assert "\tat " not in str(caught.value)  # the JVM's stack does not help a user
    assert contents(three, "numbers") == found
    assert offset(three) == 0
    assert transitions(three) == ["created", "begun", "resolving", "aborted"]


@pytest.mark.thorough
def test_undo_is_refused_if_a_needed_deletion_vector_was_vacuumed(three: StreamLab) -> None:
    """RESTORE checks data files only, and would leave a target that cannot be read."""
    three.sql(
        "ALTER TABLE {log} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        + AT_ONCE
        + ")",
        "INSERT INTO {log} SELECT /*+ COALESCE(1) */ id, 'v', 'x' FROM range(100, 104)",
        "DELETE FROM {log} WHERE id = 100",
    )

    def vacuum(progress: Progress) -> None:
        if (progress.point, progress.statement_index) == (ProtocolPoint.BEFORE_STATEMENT, 1):
            time.sleep(0.1)
            three.sql("VACUUM {log}")

    with pytest.raises(ConsumptionOpen, match="cannot be restored to its earlier state"):
        three.consume("DELETE FROM {log} WHERE id = 101", NUMBERS, engine=three.new_engine(vacuum))

    assert [row[0] for row in three.rows("log")] == [0, 102, 103]
    assert offset(three) == 0
    assert phase(three) is not Phase.IDLE
    three.engine.abort_consumption("s", keep=[three.name("log")])
    assert phase(three) is Phase.IDLE


@pytest.mark.thorough
def test_undo_restores_a_target_version_older_than_the_file_retention(three: StreamLab) -> None:
    """Delta refuses RESTORE to a version that is older than the retention of files."""
    three.sql("ALTER TABLE {log} SET TBLPROPERTIES (" + AT_ONCE + ")")
    found = contents(three, "log")
    time.sleep(0.1)

    with pytest.raises(StatementFailed, match="statement 2 of"):
        three.consume(LOG, NUMBERS, consumer="me")

    assert contents(three, "log") == found
    assert transitions(three)[-1] == "aborted"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("columns", "setup"),
    [
        ("id INT, v STRING NOT NULL", None),
        ("id INT, v STRING", "ALTER TABLE {strict} ADD CONSTRAINT plain CHECK (v <> 'x')"),
    ],
    ids=["not null", "check"],
)
def test_consumption_with_a_statement_that_breaks_a_constraint_is_undone(
    three: StreamLab, columns: str, setup: str | None
) -> None:
    three.make("strict", columns)
    if setup:
        three.sql(setup)

    with pytest.raises(StatementFailed, match="statement 2 of"):
        three.consume(
            LOG,
            "INSERT INTO {strict} SELECT id, nullif(v, 'x') FROM s"
            if setup is None
            else "INSERT INTO {strict} SELECT id, v FROM s",
        )

    assert contents(three, "log", "strict") == {"log": [(0, "kept", "x")], "strict": []}
    assert transitions(three)[-1] == "aborted"


def test_create_table_as_that_spark_refuses_leaves_no_table(three: StreamLab) -> None:
    with pytest.raises(InvalidStatement, match="is refused by Spark"):
        three.consume(LOG, "CREATE TABLE {made} USING delta AS SELECT missing FROM s")

    assert not Path(three.path("made")).exists()
    assert transitions(three) == ["created"]


@pytest.mark.parametrize(
    ("columns", "cause"),
    [
        ("id, map() AS tags", "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"),
        ("id, array() AS a", "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"),
        ("id, named_struct('x', NULL) AS n", "DELTA_CANNOT_WRITE_EMPTY_SCHEMA"),
        ("id + 1", "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
        ("id, v AS ID", "COLUMN_ALREADY_EXISTS"),
        ("INTERVAL '3' DAY AS d", "DELTA_UNSUPPORTED_DATA_TYPES"),
        ("make_interval(1) AS d", "INTERVAL"),
    ],
)
def test_create_table_as_that_delta_refuses_leaves_nothing(
    lab: StreamLab, columns: str, cause: str
) -> None:
    with pytest.raises(InvalidStatement, match=f"is refused by Spark. Cause: .*{cause}") as caught:
        lab.consume(LOG, f"CREATE TABLE {{made}} USING delta AS SELECT {columns} FROM s")

    assert not Path(lab.path("made")).exists()
    assert "\n" not in str(caught.value)
    assert transitions(lab) == ["created"]


@pytest.mark.in_ci("corrected")
@pytest.mark.parametrize("place", ["{made}", "corrected"])
def test_create_table_as_can_be_corrected_after_a_refusal(lab: StreamLab, place: str) -> None:
    create = f"CREATE TABLE {place} USING delta AS SELECT "
    try:
        with pytest.raises(InvalidStatement, match="is refused by Spark"):
            lab.consume(create + "id, map() AS tags FROM s")
        lab.consume(create + "id, map('a', v) AS tags FROM s")
        rows = lab.spark.sql(lab.text(f"SELECT id FROM {place}")).collect()
        assert sorted(map(tuple, rows)) == [(1,), (2,)]
    finally:
        lab.spark.sql("DROP TABLE IF EXISTS corrected")


@pytest.mark.thorough
@pytest.mark.parametrize("left", ["", "_delta_log/_staged_commits"])
def test_create_table_as_uses_a_folder_that_holds_no_file(lab: StreamLab, left: str) -> None:
    Path(lab.path("made"), left).mkdir(parents=True)

    lab.consume("CREATE TABLE {made} USING delta AS SELECT id FROM s")

    assert lab.rows("made") == [(1,), (2,)]


def test_create_table_as_after_a_cut_off_attempt_reports_what_to_remove(lab: StreamLab) -> None:
    Path(lab.path("made"), "_delta_log").mkdir(parents=True)
    Path(lab.path("made"), "part-0.parquet").write_bytes(b"PAR1")

    with pytest.raises(NotADeltaTable, match=r"part-0\.parquet.*remove that folder"):
        lab.consume("CREATE TABLE {made} USING delta AS SELECT id FROM s")

    assert Path(lab.path("made"), "part-0.parquet").exists()


def test_leftover_empty_table_is_not_replaced_by_a_query_delta_refuses(three: StreamLab) -> None:
    create = "CREATE TABLE {made} USING delta AS SELECT "
    with pytest.raises(StatementFailed):
        three.consume(create + "CAST(v AS INT) AS n FROM s")
    with pytest.raises(InvalidStatement, match="CONTAINS_NULL_TYPE"):
        three.consume(LOG, create + "map() AS tags FROM s")
    assert three.rows("log") == [(0, "kept", "x")]

    three.consume(create + "id FROM s")

    assert three.rows("made") == [(1,), (2,), (3,)]


@pytest.mark.thorough
def test_retry_of_a_failed_create_table_as_may_have_other_columns(
    three: StreamLab,
) -> None:
    with pytest.raises(StatementFailed):
        three.consume("CREATE TABLE {made} USING delta AS SELECT CAST(v AS INT) AS n FROM s")

    three.consume("CREATE TABLE IF NOT EXISTS {made} USING delta PARTITIONED BY (id) AS TABLE s")

    assert len(three.rows("made")) == 3


@pytest.mark.thorough
def test_table_under_two_names_is_undone_as_one(three: StreamLab) -> None:
    three.spark.sql(f"CREATE TABLE by_name USING delta LOCATION '{three.path('log')}'")
    try:
        for statements in ([BY_NAME, LOG], [LOG, BY_NAME], [LOG, BY_NAME, LOG]):
            with pytest.raises(StatementFailed):
                three.consume(*statements, NUMBERS)
            assert three.rows("log") == [(0, "kept", "x")]
    finally:
        three.spark.sql("DROP TABLE by_name")
    assert transitions(three)[-1] == "aborted"


@pytest.mark.in_ci("dropped")
@pytest.mark.parametrize("replace", ["dropped", "recreated"])
def test_dropped_or_recreated_target_can_be_given_up_with_keep(
    three: StreamLab, replace: str
) -> None:
    three.spark.sql("CREATE TABLE vanishing (id INT, v STRING, action STRING) USING delta")
    statement = LOG.replace("{log}", "vanishing")
    crash(three, ProtocolPoint.AFTER_STATEMENT, 1, SUMS, statement, NUMBERS)
    three.spark.sql("DROP TABLE vanishing")
    if replace == "recreated":
        three.spark.sql("CREATE TABLE vanishing (id INT, v STRING, action STRING) USING delta")
    try:
        if replace == "dropped":
            with pytest.raises(ConsumptionOpen, match="keep="):
                three.consume(SUMS, consumer="second")
        three.engine.abort_consumption("s", keep=["vanishing"])
        assert three.rows("sums") == [(0, 1000), (1, 2000)]
        assert phase(three) is Phase.IDLE
    finally:
        three.spark.sql("DROP TABLE IF EXISTS vanishing")


@pytest.mark.thorough
def test_neutral_commit_in_between_does_not_block_the_undo(three: StreamLab) -> None:
    engine = three.new_engine(
        before(ProtocolPoint.AFTER_STATEMENT, lambda: three.sql("OPTIMIZE {log}"), 0)
    )
    with pytest.raises(StatementFailed):
        three.consume(LOG, NUMBERS, engine=engine)

    assert three.rows("log") == [(0, "kept", "x")]
    assert phase(three) is Phase.IDLE


def follow_log(lab: StreamLab, semantics: str) -> None:
    """An append-only stream ``after`` on the target ``log``."""
    lab.sql(f"ALTER TABLE {{log}} SET TBLPROPERTIES ({TRACKED})")
    options = {"mode": "append_only", "append_semantics": semantics}
    lab.engine.create_stream("after", on_table=lab.path("log"), **options)


@pytest.mark.thorough
@pytest.mark.parametrize("semantics", ["inserted", "surviving"])
def test_append_only_stream_on_a_target_returns_nothing_that_was_undone(
    three: StreamLab, semantics: str
) -> None:
    follow_log(three, semantics)

    with pytest.raises(StatementFailed, match="statement 2 of"):
        three.consume(LOG, NUMBERS)
    assert three.engine.stream_has_data("after", exact=False) is False
    assert three.seen("after") == []

    three.sql("UPDATE {src} SET v = '30' WHERE id = 3")
    three.consume(LOG, NUMBERS)
    assert [change[0] for change in three.seen("after")] == [1, 2, 3]


@pytest.mark.thorough
@pytest.mark.parametrize("is_by_moment", [False, True], ids=["version", "moment"])
@pytest.mark.parametrize("semantics", ["inserted", "surviving"])
def test_append_only_stream_returns_undone_rows_that_a_user_restores(
    three: StreamLab, semantics: str, is_by_moment: bool
) -> None:
    follow_log(three, semantics)
    applied = three.version("log") + 1
    with pytest.raises(StatementFailed, match="statement 2 of"):
        three.consume(LOG, NUMBERS)
    assert three.seen("after") == []

    moment = three.committed_at("log", applied).isoformat()
    point = f"TIMESTAMP AS OF '{moment}'" if is_by_moment else f"VERSION AS OF {applied}"
    three.sql(f"RESTORE TABLE {{log}} TO {point}", "INSERT INTO {log} VALUES (9, 'nine', 'x')")

    assert [row[0] for row in three.rows("log")] == [0, 1, 2, 3, 9]
    assert [change[0] for change in three.seen("after")] == [1, 2, 3, 9]


@pytest.mark.thorough
@pytest.mark.parametrize("semantics", ["inserted", "surviving"])
def test_append_only_batch_does_not_end_between_a_statement_and_its_undo(
    three: StreamLab, semantics: str
) -> None:
    follow_log(three, semantics)
    with pytest.raises(StatementFailed, match="statement 2 of"):
        three.consume(LOG, NUMBERS)
    three.sql("INSERT INTO {log} VALUES (9, 'nine', 'x')")

    before, copied = three.rows("sums"), []
    while three.engine.stream_has_data("after", exact=False):
        copy = "INSERT INTO {sums} SELECT id, 1 FROM after"
        outcome = three.consume(copy, consumer="reader", max_commits=1)
        copied.append(outcome.streams[0].rows["inserted"])
    assert copied == [0, 1]
    assert three.rows("sums") == sorted([*before, (9, 1)])


@pytest.mark.thorough
@pytest.mark.parametrize("semantics", ["inserted", "surviving"])
def test_append_only_stream_returns_rows_that_an_undo_gives_back_later(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch, semantics: str
) -> None:
    follow_log(three, semantics)
    copy = "INSERT INTO {sums} SELECT id, 1 FROM after"

    crash_after_an_undo_that_met_another(three, SparkWriter, monkeypatch)
    three.consume(copy, consumer="reader")
    with pytest.raises(ConsumptionOpen, match="keep="):
        three.consume(SUMS, consumer="second")
    three.engine.abort_consumption("s", keep=[three.name("log")])
    three.consume(copy, consumer="reader")

    assert [row[0] for row in three.rows("log")] == [0, 1, 2, 3, 99]
    assert [row[0] for row in three.rows("sums") if row[1] == 1] == [1, 2, 3, 99]
