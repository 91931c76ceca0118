"""A target is recovered after its stream went stale, by writing only the rows that differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import MERGE_INTO_COPY, Crash, CrashAt, StreamLab

from airflow_provider_cdc.engine import (
    Engine,
    InvalidRequest,
    Progress,
    ProtocolPoint,
    StatementFailed,
    StreamAccessDenied,
    StreamStale,
    TableNotFound,
    Version,
)
from airflow_provider_cdc.engine.spark.session.session_settings import settings

TRACKED = "'delta.enableRowTracking' = 'true'"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """A stream ``s`` at version 1 of ``src``, and a copy that lacks the changes since."""
    lab = StreamLab(spark, tmp_path)
    lab.make(
        "src",
        "id INT, v STRING",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
        "UPDATE {t} SET v = 'B' WHERE id = 2",
        "DELETE FROM {t} WHERE id = 3",
        "INSERT INTO {t} VALUES (5, NULL)",
        "DELETE FROM {t} WHERE id = 4",
        "INSERT INTO {t} VALUES (4, 'd')",  # another row of the same values
        properties=f"{TRACKED}, 'delta.checkpointInterval' = '2'",
    )
    rows = "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')"
    lab.make("copy", "id INT, v STRING", rows)
    lab.engine.create_stream("s", on_table=lab.path("src"), at=Version(1))
    return lab


def lose(lab: StreamLab) -> None:
    """Let the stream go stale by removing the commits before the last checkpoint."""
    log = Path(lab.path("src"), "_delta_log")
    last = max(int(file.name[:20]) for file in log.glob("*.checkpoint.parquet"))
    for version in range(last):
        (log / f"{version:020d}.json").unlink()
    with pytest.raises(StreamStale):
        lab.engine.read_stream("s")


def recover(lab: StreamLab, engine: Engine | None = None, consumer: str = "c", **key: Any) -> Any:
    target = lab.path("copy")
    return (engine or lab.engine).recover_stream(
        "s", target, key.get("key", ["id"]), consumer=consumer
    )


def checked(lab: StreamLab) -> None:
    """Assert that copy and stream are correct now and after the next change."""
    assert lab.rows("copy") == lab.rows("src")
    status = lab.engine.describe_stream("s")
    assert (status.invalid_reason, status.phase.value) == (None, "idle")
    assert lab.changes("s") == []
    lab.sql("UPDATE {src} SET v = 'later' WHERE id = 1")
    lab.consume(MERGE_INTO_COPY)
    assert lab.rows("copy") == lab.rows("src")


@pytest.mark.thorough
def test_target_of_a_stale_stream_gets_only_the_rows_that_differ(lab: StreamLab) -> None:
    lose(lab)
    outcome = recover(lab)
    assert outcome.streams[0].rows == {"inserted": 1, "updated": 1, "deleted": 1}
    assert outcome.streams[0].strategy == "comparison"
    metrics = outcome.statements[0].metrics
    written = [metrics[f"numTargetRows{kind}"] for kind in ("Inserted", "Updated", "Deleted")]
    assert written == [1, 1, 1]
    assert lab.engine.stream_history("s")[-1].transition == "committed"
    checked(lab)


@pytest.mark.thorough
def test_target_of_an_append_only_stream_gets_only_the_missing_rows(
    lab: StreamLab,
) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), mode="append_only", or_replace=True)
    lab.sql("DELETE FROM {src} WHERE id = 1", "INSERT INTO {src} VALUES (6, 'f')")
    lose(lab)
    outcome = recover(lab)
    assert outcome.streams[0].rows == {"inserted": 2, "updated": 0, "deleted": 0}
    kept = [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert lab.rows("copy") == [*kept, (5, None), (6, "f")]
    lab.sql("INSERT INTO {src} VALUES (7, 'g')")
    assert [change[:2] for change in lab.changes("s")] == [((7, "g"), "INSERT")]


@pytest.mark.thorough
def test_target_of_a_recreated_source_is_recovered(lab: StreamLab) -> None:
    lab.sql(
        f"CREATE OR REPLACE TABLE {{src}} USING delta TBLPROPERTIES ({TRACKED}) AS"
        " SELECT id, v, 'more' AS extra FROM VALUES (1, 'a'), (9, 'new') AS t(id, v)"
    )
    with pytest.raises(StreamStale, match="was replaced"):
        lab.changes("s")
    outcome = recover(lab)
    assert outcome.streams[0].rows == {"inserted": 1, "updated": 0, "deleted": 3}
    assert lab.rows("copy") == [(1, "a"), (9, "new")]
    assert lab.engine.describe_stream("s").invalid_reason is None
    lab.sql("INSERT INTO {src} VALUES (10, 'x', 'y')")
    lab.consume("INSERT INTO {copy} SELECT id, v FROM s")
    assert lab.rows("copy")[0] == (1, "a")
    assert (10, "x") in lab.rows("copy")


@pytest.mark.thorough
def test_row_that_somebody_else_deletes_before_the_merge_stays_deleted(lab: StreamLab) -> None:
    lose(lab)

    def delete(progress: Progress) -> None:
        if progress.point is ProtocolPoint.BEFORE_STATEMENT:
            lab.sql("DELETE FROM {copy} WHERE id = 3")

    recover(lab, lab.new_engine(delete))
    assert lab.rows("copy") == lab.rows("src")


@pytest.mark.thorough
def test_target_that_equals_the_source_is_not_written(lab: StreamLab) -> None:
    lose(lab)
    lab.sql("DELETE FROM {copy}", "INSERT INTO {copy} SELECT * FROM {src}")
    files = lab.spark.table(lab.name("copy")).inputFiles()
    outcome = recover(lab)
    assert outcome.streams[0].rows == {"inserted": 0, "updated": 0, "deleted": 0}
    assert lab.spark.table(lab.name("copy")).inputFiles() == files
    checked(lab)


@pytest.mark.thorough
def test_stream_that_is_not_stale_can_be_recovered_too(lab: StreamLab) -> None:
    recover(lab)
    checked(lab)


@pytest.mark.thorough
def test_target_is_recovered_after_vacuum(lab: StreamLab) -> None:
    lab.sql(
        "ALTER TABLE {src} SET TBLPROPERTIES"
        " ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')",
        "DELETE FROM {src} WHERE id > 0",
        "INSERT INTO {src} VALUES (7, 'seven')",
    )
    lab.sql("VACUUM {src}")
    with pytest.raises(StreamStale, match="missing"):
        lab.consume(MERGE_INTO_COPY)
    recover(lab)
    assert lab.rows("copy") == [(7, "seven")]
    assert lab.changes("s") == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    "point",
    [
        ProtocolPoint.AFTER_BEGIN,
        ProtocolPoint.BEFORE_STATEMENT,
        ProtocolPoint.AFTER_STATEMENT,
        ProtocolPoint.BEFORE_COMMIT,
    ],
)
@pytest.mark.parametrize("who", ["c", "another"])
def test_killed_recovery_is_finished_or_begun_again(
    lab: StreamLab, point: ProtocolPoint, who: str
) -> None:
    lose(lab)
    with pytest.raises(Crash):
        recover(lab, lab.new_engine(CrashAt(point)))
    lab.sql("INSERT INTO {src} VALUES (6, 'meanwhile')")
    recover(lab, consumer=who)
    if who == "c":
        # The retry recovers up to the point where the first attempt began.
        assert lab.seen("s") == [(6, "meanwhile", "INSERT", False)]
        lab.consume(MERGE_INTO_COPY)
    checked(lab)


@pytest.mark.thorough
@pytest.mark.parametrize("applied", [False, True])
def test_killed_recovery_whose_target_cannot_be_compared_any_more_is_ended(
    lab: StreamLab, applied: bool
) -> None:
    lose(lab)
    before = lab.rows("copy")
    point = ProtocolPoint.BEFORE_COMMIT if applied else ProtocolPoint.AFTER_BEGIN
    with pytest.raises(Crash):
        recover(lab, lab.new_engine(CrashAt(point)))
    after = lab.rows("copy")
    lab.sql("INSERT INTO {copy} VALUES (1, 'twice')")
    if applied:
        recover(lab)
        assert after == lab.rows("src")
        assert lab.engine.describe_stream("s").invalid_reason is None
    else:
        with pytest.raises(InvalidRequest, match="have the key"):
            recover(lab)
        assert after == before
    assert lab.engine.describe_stream("s").phase.value == "idle"


@pytest.mark.thorough
def test_failed_recovery_leaves_target_and_stream_unchanged(lab: StreamLab) -> None:
    lose(lab)
    lab.sql("ALTER TABLE {copy} ADD CONSTRAINT known CHECK (v IS NOT NULL)")
    before = lab.rows("copy")
    with pytest.raises(StatementFailed):
        recover(lab)
    assert lab.rows("copy") == before
    assert lab.engine.describe_stream("s").invalid_reason is not None


@pytest.mark.in_ci("key1-expected some of the columns id, v")
@pytest.mark.parametrize(
    ("key", "message"),
    [
        ([], "found"),
        (["nothing"], "expected some of the columns id, v"),
        (["v"], "rows of .*copy.* have the key"),
    ],
)
def test_key_that_does_not_identify_rows_is_refused(lab: StreamLab, key: Any, message: str) -> None:
    lab.sql("INSERT INTO {copy} VALUES (6, 'a')")
    before = lab.rows("copy")
    with pytest.raises(InvalidRequest, match=message):
        recover(lab, key=key)
    assert lab.rows("copy") == before
    assert lab.engine.stream_history("s")[-1].transition == "created"


def test_recovery_of_an_invalid_target_or_without_access_is_refused(lab: StreamLab) -> None:
    lab.make("wider", "id INT, v STRING, own INT")
    with pytest.raises(InvalidRequest, match="no column own"):
        lab.engine.recover_stream("s", lab.path("wider"), ["id"], consumer="c")
    with pytest.raises(TableNotFound):
        lab.engine.recover_stream("s", lab.path("nothing"), ["id"], consumer="c")
    lab.engine.alter_stream("s", consumers=["carla"])
    emil = Engine(lab.spark, str(lab.root / "state"), principal="emil")
    with pytest.raises(StreamAccessDenied):
        recover(lab, emil)


@pytest.mark.thorough
def test_composite_key_with_nulls_and_other_types_compares_as_in_merge(
    lab: StreamLab,
) -> None:
    lab.make("wide", "a INT, b STRING, n INT, m MAP<STRING, INT>", properties=TRACKED)
    lab.sql(
        "INSERT INTO {wide} VALUES (1, NULL, 1, map('x', 1, 'y', 2)), (1, 'b', 2, NULL),"
        " (NULL, NULL, 3, map())"
    )
    lab.make("old", "b STRING, a BIGINT, n BIGINT, m MAP<STRING, INT>")
    lab.sql("INSERT INTO {old} VALUES (NULL, 1, 1, map('y', 2, 'x', 1)), ('b', 1, 9, NULL)")
    lab.engine.create_stream("w", on_table=lab.path("wide"))
    outcome = lab.engine.recover_stream("w", lab.path("old"), ["a", "B"], consumer="c")
    assert outcome.streams[0].rows == {"inserted": 1, "updated": 1, "deleted": 0}
    found = [row[:3] for row in lab.rows("old")]
    assert found == [("b", 1, 2), (None, 1, 1), (None, None, 3)]


def compared(lab: StreamLab, source: str, target: str, key: str = "id") -> Any:
    """Recover table ``to`` with columns ``target`` from table ``of`` with columns ``source``; the
    first call only makes both.
    """
    if not Path(lab.path("of")).exists():
        lab.make("of", source, properties=TRACKED)
        lab.make("to", target)
        lab.engine.create_stream("p", on_table=lab.path("of"))
        return None
    return lab.engine.recover_stream("p", lab.path("to"), key, consumer="c").streams[0].rows


NOTHING = {"inserted": 0, "updated": 0, "deleted": 0}
ONE_UPDATE = {"inserted": 0, "updated": 1, "deleted": 0}
# Session settings for values that do not fit; recovery does not depend on them.
LENIENT = {"spark.sql.ansi.enabled": "false", "spark.sql.storeAssignmentPolicy": "LEGACY"}


@pytest.fixture
def pair(spark: SparkSession, tmp_path: Path) -> StreamLab:
    return StreamLab(spark, tmp_path)


@pytest.mark.thorough
def test_fields_are_stored_by_their_names_at_any_depth(pair: StreamLab) -> None:
    place, turned = "STRUCT<street: STRING, city: STRING>", "STRUCT<City: STRING, street: STRING>"
    many = "id INT, p {0}, a ARRAY<{0}>, m MAP<{0}, STRUCT<x: ARRAY<{0}>>>"
    columns = many.format(place), many.format(turned)
    compared(pair, *columns)
    at, at_turned = "named_struct('street', '{0}', 'city', 'b')", "struct('b', '{0}')"
    row = "({1}, {0}, array({0}), map({0}, struct(array({0}))))"
    pair.sql(
        f"INSERT INTO {{of}} VALUES {row.format(at.format('a'), 1)}, (2, NULL, array(NULL), NULL)",
        f"INSERT INTO {{to}} SELECT * FROM VALUES {row.format(at_turned.format('a'), 1)},"
        " (2, NULL, array(NULL), NULL)",
    )
    with settings(pair.spark, LENIENT):
        assert compared(pair, *columns) == NOTHING

    pair.sql(f"INSERT OVERWRITE {{of}} VALUES {row.format(at.format('c'), 1)}")
    rows = compared(pair, *columns)
    assert rows == {"inserted": 0, "updated": 1, "deleted": 1}
    ((_, found, listed, mapped),) = pair.rows("to")
    assert (found.street, found.City) == ("c", "b")
    assert listed == [found]
    assert [(key.street, value.x) for key, value in mapped.items()] == [("c", [found])]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("STRUCT<a: INT>", "STRUCT<a: INT, b: INT>", r"expected a field v\.b, found a"),
        ("ARRAY<STRUCT<a: INT>>", "ARRAY<STRUCT<b: INT>>", r"a field v\.element\.b, found a"),
        ("MAP<INT, STRUCT<a: INT, b: INT>>", "MAP<INT, STRUCT<a: INT>>", "found b too"),
        ("STRING", "INT", "stored as int, found string"),
        ("STRUCT<a: BOOLEAN>", "STRUCT<a: INT>", r"expected v\.a as .* found boolean"),
        ("INT", "STRUCT<a: INT>", "found int"),
    ],
)
def test_column_unfit_for_the_target_is_refused_before_recovery_begins(
    pair: StreamLab, source: str, target: str, message: str
) -> None:
    columns = f"id INT, v {source}", f"id INT, v {target}"
    compared(pair, *columns)
    with settings(pair.spark, LENIENT), pytest.raises(InvalidRequest, match=message):
        compared(pair, *columns)
    assert pair.engine.stream_history("p")[-1].transition == "created"


@pytest.mark.in_ci("STRING-'abcd'-VARCHAR(3)-*")
@pytest.mark.parametrize(
    ("source", "value", "target", "message"),
    [
        ("BIGINT", "3000000000", "INT", "column v: expected a value of int, found <3000000000>"),
        ("ARRAY<DOUBLE>", "array(double('NaN'))", "ARRAY<INT>", "column v.element: .* found <NaN>"),
        ("DECIMAL(6,1)", "12345.6", "DECIMAL(4,1)", r"decimal\(4,1\), found <12345.6>"),
        ("STRUCT<a: STRING>", "struct('abcd')", "STRUCT<a: CHAR(3)>", r"v.a: .*char\(3\), found"),
        ("STRING", "'abcd'", "VARCHAR(3)", r"varchar\(3\), found <abcd>"),
    ],
)
def test_value_that_does_not_fit_fails_even_in_a_lenient_session(
    pair: StreamLab, source: str, value: str, target: str, message: str
) -> None:
    columns = f"id INT, v {source}", f"id INT, v {target}"
    compared(pair, *columns)
    pair.sql(
        f"INSERT INTO {{of}} VALUES (1, NULL), (2, {value})", "INSERT INTO {to} SELECT 1, NULL"
    )
    with settings(pair.spark, LENIENT), pytest.raises(StatementFailed, match=message):
        compared(pair, *columns)
    assert pair.rows("to") == [(1, None)]
    assert pair.engine.describe_stream("p").phase.value == "idle"


def test_key_that_does_not_fit_fails_before_anything_begins(pair: StreamLab) -> None:
    compared(pair, "id BIGINT", "id INT")
    pair.sql("INSERT INTO {of} VALUES (3000000000)")
    with settings(pair.spark, LENIENT), pytest.raises(StatementFailed, match="column id: "):
        compared(pair, "id BIGINT", "id INT")
    assert pair.engine.stream_history("p")[-1].transition == "created"


@pytest.mark.thorough
def test_char_and_varchar_values_are_compared_as_they_are_stored(pair: StreamLab) -> None:
    source = "k STRING, v CHAR(9), w STRING, s STRUCT<a: STRING, b: ARRAY<STRING>>"
    target = "k CHAR(5), v CHAR(7), w VARCHAR(4), s STRUCT<b: ARRAY<VARCHAR(2)>, a: CHAR(3)>"
    compared(pair, source, target, "k")
    pair.sql(
        "INSERT INTO {of} VALUES ('a', 'b', 'c', struct('d', array('e ')))",
        "INSERT INTO {to} VALUES ('a', 'b', 'c', struct(array('e '), 'd'))",
    )
    assert compared(pair, source, target, "k") == NOTHING
    pair.sql("UPDATE {of} SET v = 'other', w = 'c    '", "INSERT INTO {of} (k) VALUES ('new')")
    assert compared(pair, source, target, "k") == ONE_UPDATE | {"inserted": 1}
    assert [row[:3] for row in pair.rows("to")] == [
        ("a    ", "other  ", "c   "),
        ("new  ", None, None),
    ]
    assert compared(pair, source, target, "k") == NOTHING


@pytest.mark.thorough
def test_wider_types_are_stored_and_null_in_a_not_null_column_fails(pair: StreamLab) -> None:
    source = "id SMALLINT, d DECIMAL(4,1), t TIMESTAMP_NTZ, o VARIANT, n INT"
    target = "id INT, d DECIMAL(9,3), t TIMESTAMP, o VARIANT, n BIGINT NOT NULL"
    compared(pair, source, target)
    moment = "TIMESTAMP_NTZ '2026-01-02 03:04:05.678901'"
    pair.sql(f"INSERT INTO {{of}} VALUES (1, 1.5, {moment}, parse_json('{{{{\"a\": 1}}}}'), 7)")
    assert compared(pair, source, target) == {"inserted": 1, "updated": 0, "deleted": 0}
    assert compared(pair, source, target) == NOTHING
    held = pair.rows("to")
    pair.sql("UPDATE {of} SET n = NULL")
    with pytest.raises(StatementFailed, match="NOT NULL"):
        compared(pair, source, target)
    # In Python a VARIANT value equals only itself, so compare the texts.
    assert repr(pair.rows("to")) == repr(held)


def test_key_that_cannot_be_compared_is_refused(pair: StreamLab) -> None:
    compared(pair, "id MAP<INT, INT>", "id MAP<INT, INT>")
    with pytest.raises(InvalidRequest, match="cannot be compared as a key"):
        compared(pair, "", "")


@pytest.fixture
def view_lab(spark: SparkSession, tmp_path: Path) -> Iterator[StreamLab]:
    """A stream on a join whose left table was cleaned up, and a copy of the rows of the join."""
    spark.sql("CREATE SCHEMA IF NOT EXISTS recovery_lab")
    spark.sql("USE recovery_lab")
    lab = StreamLab(spark, tmp_path)
    settings = f"{TRACKED}, 'delta.checkpointInterval' = '2'"
    lab.make("src", "id INT, customer INT", properties=settings)
    lab.make("customers", "customer INT, name STRING", properties=TRACKED)
    lab.sql(
        "INSERT INTO {src} VALUES (1, 1), (2, 1), (3, 2)",
        "INSERT INTO {customers} VALUES (1, 'Ada'), (2, 'Bo')",
        "CREATE VIEW v AS SELECT id, name FROM {src} JOIN {customers} USING (customer)",
    )
    lab.make("copy", "id INT, name STRING")
    lab.sql("INSERT INTO {copy} SELECT * FROM v")
    lab.engine.create_stream("s", on_view="v")
    lab.sql(
        "DELETE FROM {src} WHERE id = 1",
        "INSERT INTO {src} VALUES (4, 2)",
        "UPDATE {customers} SET name = 'Bob' WHERE customer = 2",
        "INSERT INTO {src} VALUES (5, 1)",
        "INSERT INTO {src} VALUES (6, 1)",
    )
    yield lab
    spark.sql("USE default")
    spark.sql("DROP SCHEMA recovery_lab CASCADE")


@pytest.mark.thorough
def test_target_of_a_view_is_recovered_by_the_rows_that_differ(view_lab: StreamLab) -> None:
    lab = view_lab
    lose(lab)

    outcome = recover(lab)

    assert lab.rows("copy") == sorted(map(tuple, lab.spark.table("v").collect()))
    assert outcome.streams[0].rows == {"inserted": 3, "updated": 1, "deleted": 1}
    metrics = outcome.statements[0].metrics
    assert (metrics["numTargetRowsInserted"], metrics["numTargetRowsDeleted"]) == (3, 1)
    assert lab.changes("s") == []
    lab.sql("UPDATE {customers} SET name = 'Eve' WHERE customer = 1")
    assert {row[:2] for row in lab.seen("s")} == {
        (number, name) for number in (2, 5, 6) for name in ("Ada", "Eve")
    }


@pytest.mark.thorough
def test_killed_recovery_of_a_view_is_finished(view_lab: StreamLab) -> None:
    lab = view_lab
    lose(lab)
    crashing = lab.new_engine(CrashAt(ProtocolPoint.AFTER_BEGIN))
    with pytest.raises(Crash):
        recover(lab, crashing)
    lab.sql("INSERT INTO {src} VALUES (7, 2)")

    recover(lab)

    assert [row[0] for row in lab.rows("copy")] == [2, 3, 4, 5, 6]
    assert [row[0] for row in lab.seen("s")] == [7]


@pytest.mark.thorough
def test_stream_whose_view_was_redefined_is_not_recovered(view_lab: StreamLab) -> None:
    before = view_lab.rows("copy")
    view_lab.sql("CREATE OR REPLACE VIEW v AS SELECT id, 'x' AS name FROM {src}")

    with pytest.raises(StreamStale):
        recover(view_lab)
    assert view_lab.rows("copy") == before
