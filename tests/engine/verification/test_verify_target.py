"""Checks prove that a target equals its source, read only what changed, and heal what differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_lab import MERGE_INTO_COPY, PASSED_POINTS, Crash, CrashAt, StreamLab

from airflow_provider_cdc.engine import (
    CdcError,
    InvalidRequest,
    ProtocolPoint,
    StreamConflict,
    StreamNotFound,
    StreamUnusable,
    TableNotFound,
    Verification,
)
from airflow_provider_cdc.engine.spark.verification import verifying

TRACKED = "'delta.enableRowTracking' = 'true'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"
ROWS = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('v', id) FROM range(2000)"
MORE = "INSERT INTO {src} SELECT id, concat('w', id) FROM range(2000, 2100)"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """A table ``src`` of 2,000 rows, and a ``copy`` that the stream ``s`` fills."""
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id BIGINT, v STRING", ROWS, properties=TRACKED)
    # With vectors, a change of few rows does not rewrite the whole copy.
    lab.make("copy", "id BIGINT, v STRING", ROWS, properties=VECTORS)
    lab.engine.create_stream("s", on_table=lab.path("src"))
    return lab


def verify(lab: StreamLab, **options: bool) -> Verification:
    return lab.engine.verify_target("s", lab.path("copy"), "id", **options)


def found(check: Verification) -> dict[int, str]:
    """The kind of each difference by its id."""
    return {json.loads(each.key)["id"]: each.kind.value for each in check.differences}


def test_equal_target_is_verified_and_next_check_reads_nothing(lab: StreamLab) -> None:
    first, second = verify(lab), verify(lab)

    assert first.is_equal
    assert (first.verified_through, first.is_incremental) == (1, False)
    assert first.bytes_read == first.bytes_total > 0
    assert second.is_equal
    assert (second.is_incremental, second.bytes_read) == (True, 0)
    assert second.bytes_total == first.bytes_total


def test_next_check_reads_only_what_changed_in_both_tables(lab: StreamLab) -> None:
    whole = verify(lab)
    lab.sql(MORE)
    lab.consume(MERGE_INTO_COPY)
    check = verify(lab)

    assert check.is_equal
    assert check.verified_through == 2
    assert check.is_incremental
    assert 0 < check.bytes_read < whole.bytes_read / 2
    assert check.bytes_total > whole.bytes_total


@pytest.mark.in_ci("incremental")
@pytest.mark.parametrize("is_proved", [True, False], ids=["incremental", "full"])
def test_each_difference_is_named_and_healed(lab: StreamLab, is_proved: bool) -> None:
    if is_proved:
        verify(lab)
    lab.sql(MORE)
    lab.consume(MERGE_INTO_COPY)
    lab.sql(
        "UPDATE {copy} SET v = 'corrupt' WHERE id = 7",
        "DELETE FROM {copy} WHERE id IN (8, 2050)",
        "INSERT INTO {copy} VALUES (5000, 'no source')",
    )
    # What is not consumed yet is no difference.
    lab.sql("UPDATE {src} SET v = 'later' WHERE id = 1")
    check = verify(lab)
    assert not check.is_equal
    assert check.is_incremental is is_proved
    assert check.verified_through == (1 if is_proved else None)
    assert check.differing_keys == 4
    assert found(check) == {7: "different", 8: "missing", 2050: "missing", 5000: "unexpected"}

    healed = verify(lab, heal=True)

    assert healed.is_equal
    assert healed.healed is not None
    assert (healed.differing_keys, healed.verified_through) == (4, 2)
    assert verify(lab).bytes_read == 0
    rows = dict(lab.rows("copy"))
    assert (rows[7], rows[8], rows[1], 5000 in rows) == ("v7", "v8", "v1", False)
    # The stream has not moved: what waits is still there.
    lab.consume(MERGE_INTO_COPY)
    assert lab.rows("copy") == lab.rows("src")
    assert verify(lab).is_equal


@pytest.mark.thorough
def test_target_changed_after_a_check_is_not_equal_although_the_stream_did_not_move(
    lab: StreamLab,
) -> None:
    verify(lab)
    lab.sql("UPDATE {copy} SET v = 'corrupt' WHERE id = 3")
    check = verify(lab)

    assert (check.is_equal, check.differing_keys) == (False, 1)
    assert check.verified_through == check.version == 1


@pytest.mark.thorough
def test_write_that_claims_to_change_no_data_is_compared(lab: StreamLab) -> None:
    verify(lab)
    rows = lab.spark.range(2000).selectExpr("id", "'wrong' AS v")
    writer = rows.write.format("delta").mode("overwrite").option("dataChange", "false")
    writer.save(lab.path("copy"))
    check = verify(lab)

    assert (check.is_incremental, check.differing_keys) == (True, 2000)


@pytest.mark.thorough
def test_keys_that_differ_in_microseconds_are_named_apart(lab: StreamLab) -> None:
    rows = "SELECT timestamp_micros(1000000 + id) AS at, 'v' AS v FROM range({n})"
    lab.make(
        "times",
        "at TIMESTAMP, v STRING",
        "INSERT INTO {t} " + rows.replace("{n}", "3"),
        properties=TRACKED,
    )
    lab.make("other", "at TIMESTAMP, v STRING", "INSERT INTO {t} " + rows.replace("{n}", "1"))
    lab.engine.create_stream("t", on_table=lab.path("times"))
    check = lab.engine.verify_target("t", lab.path("other"), "at")

    assert len({each.key for each in check.differences}) == check.differing_keys == 2


@pytest.mark.thorough
def test_what_cannot_be_read_or_does_not_fit_is_an_error_of_the_engine(lab: StreamLab) -> None:
    lab.make("narrow", "id INT, v STRING")
    lab.sql("INSERT INTO {src} VALUES (5000000000, 'long')")
    lab.engine.advance_stream("s")
    with pytest.raises(StreamUnusable, match="column id: expected a value of int"):
        lab.engine.verify_target("s", lab.path("narrow"), "id")
    lab.make("signed", "id BIGINT, _cdc_sign INT")
    lab.make("src3", "id BIGINT, _cdc_sign INT", properties=TRACKED)
    lab.engine.create_stream("s3", on_table=lab.path("src3"))
    with pytest.raises(InvalidRequest, match="_cdc_sign"):
        lab.engine.verify_target("s3", lab.path("signed"), "id")
    for file in (lab.root / "copy").glob("*.parquet"):
        file.unlink()
    with pytest.raises(StreamUnusable, match="cannot be compared"):
        verify(lab)


@pytest.mark.thorough
def test_many_differences_are_counted_and_a_hundred_named(lab: StreamLab) -> None:
    lab.sql("UPDATE {copy} SET v = NULL WHERE id < 1500")
    check = verify(lab)

    assert check.differing_keys == 1500
    assert len(check.differences) == 100
    assert verify(lab, heal=True).is_equal


@pytest.mark.thorough
def test_values_that_swap_columns_are_different(lab: StreamLab) -> None:
    # Spark's hash ignores NULL: without their places, (NULL, 1) and (1, NULL) have the same hash.
    columns = "id BIGINT, a INT, b INT, s STRUCT<x: INT, y: INT>, l ARRAY<INT>"
    values = "(1, NULL, 1, named_struct('x', NULL, 'y', 1), array(NULL, 1))"
    other = "(1, 1, NULL, named_struct('x', 1, 'y', NULL), array(1, NULL))"
    lab.make("src2", columns, f"INSERT INTO {{t}} VALUES {values}", properties=TRACKED)
    lab.engine.create_stream("s2", on_table=lab.path("src2"))
    for column, (one, two) in {
        "a, b": ("NULL, 1", "1, NULL"),
        "s": ("named_struct('x', NULL, 'y', 1)", "named_struct('x', 1, 'y', NULL)"),
        "l": ("array(NULL, 1)", "array(1, NULL)"),
    }.items():
        name = column.replace(", ", "")
        kinds = ", ".join(part for part in columns.split(", ") if part[0] in column)
        kinds = {"a, b": "a INT, b INT", "s": "s STRUCT<x: INT, y: INT>", "l": "l ARRAY<INT>"}[
            column
        ]
        lab.make(name, f"id BIGINT, {kinds}", f"INSERT INTO {{t}} SELECT 1, {two}")
        assert lab.engine.verify_target("s2", lab.path(name), "id").differing_keys == 1
        lab.sql(f"INSERT OVERWRITE {{{name}}} SELECT 1, {one}")
        assert lab.engine.verify_target("s2", lab.path(name), "id").is_equal
    assert other


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_optimize_restore_and_rewrites_keep_a_target_equal(lab: StreamLab, vectors: str) -> None:
    for table in ("src", "copy"):
        setting = f"'delta.enableDeletionVectors' = '{vectors}'"
        lab.sql(f"ALTER TABLE {{{table}}} SET TBLPROPERTIES ({setting})")
    verify(lab)
    lab.sql(MORE, "DELETE FROM {src} WHERE id % 50 = 0", "UPDATE {src} SET v = 'u' WHERE id < 9")
    lab.consume(MERGE_INTO_COPY)
    assert verify(lab).is_equal
    lab.sql("OPTIMIZE {copy}", "OPTIMIZE {src}")
    lab.consume(MERGE_INTO_COPY)
    check = verify(lab)
    assert (check.is_equal, check.is_incremental, check.bytes_read) == (True, True, 0)
    lab.sql("RESTORE TABLE {src} TO VERSION AS OF 1")
    lab.consume(MERGE_INTO_COPY)
    assert verify(lab).is_equal
    lab.sql("RESTORE TABLE {copy} TO VERSION AS OF 1")
    assert verify(lab).is_equal


def test_target_with_added_column_is_compared_whole_once(lab: StreamLab) -> None:
    verify(lab)
    for table in ("src", "copy"):
        lab.sql(f"ALTER TABLE {{{table}}} ADD COLUMN w INT")
    lab.consume(MERGE_INTO_COPY)
    checks = [verify(lab), verify(lab)]

    assert [check.is_equal for check in checks] == [True, True]
    assert [check.is_incremental for check in checks] == [False, True]


@pytest.mark.thorough
def test_check_reads_all_rows_if_that_is_fewer_bytes(lab: StreamLab) -> None:
    verify(lab)
    lab.sql("UPDATE {src} SET v = 'u'")
    lab.consume(MERGE_INTO_COPY)
    check = verify(lab)

    assert (check.is_equal, check.is_incremental) == (True, False)
    assert check.bytes_read <= check.bytes_total


@pytest.mark.thorough
def test_full_check_reads_all_rows_again(lab: StreamLab) -> None:
    verify(lab)
    check = verify(lab, full=True)
    assert (check.is_equal, check.is_incremental) == (True, False)


@pytest.mark.thorough
def test_check_whose_result_cannot_be_read_compares_all_rows(lab: StreamLab) -> None:
    verify(lab)
    (kept,) = (lab.root / "state" / "verifications").rglob("*.json")
    kept.write_text("{")
    assert not verify(lab).is_incremental
    assert verify(lab).is_incremental


@pytest.mark.in_ci("after_statement")
@pytest.mark.parametrize("point", PASSED_POINTS)
def test_heal_of_a_crashed_driver_is_finished_once(
    lab: StreamLab, point: ProtocolPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify(lab)
    lab.sql("UPDATE {copy} SET v = 'corrupt' WHERE id = 7")
    crashing = lab.new_engine(CrashAt(point))
    with pytest.raises(Crash):
        crashing.verify_target("s", lab.path("copy"), "id", heal=True)
    monkeypatch.setattr(verifying, "PATIENCE_SECONDS", 0)
    open_one = lab.engine.describe_stream("s").phase != "idle"
    if open_one:
        with pytest.raises(StreamConflict, match="again with heal=True"):
            verify(lab)
    assert verify(lab, heal=True).is_equal
    assert lab.rows("copy") == lab.rows("src")


def test_archive_is_verified_by_row_ids_and_incrementally(lab: StreamLab) -> None:
    log = lab.path("log")
    stream = lab.engine.archive_changes(lab.path("src"), log).stream
    first = lab.engine.verify_target(stream, log)
    lab.sql(MORE, "UPDATE {src} SET v = 'u' WHERE id < 9", "DELETE FROM {src} WHERE id = 50")
    lab.engine.archive_changes(lab.path("src"), log)
    second = lab.engine.verify_target(stream, log)
    third = lab.engine.verify_target(stream, log)

    assert [check.is_equal for check in (first, second, third)] == [True, True, True]
    assert [check.is_incremental for check in (first, second, third)] == [False, True, True]
    assert third.bytes_read == 0
    assert lab.engine.verify_target(stream, log, full=True).is_equal


def test_bad_arguments_are_refused_and_nothing_is_written(lab: StreamLab) -> None:
    call, copy = lab.engine.verify_target, lab.path("copy")
    lab.engine.create_stream("appended", on_table=lab.path("src"), mode="append_only")
    lab.engine.create_stream("first", on_table=lab.path("src"), show_initial_rows=True)
    stream = lab.engine.archive_changes(lab.path("src"), lab.path("log")).stream
    lab.make("wide", "id BIGINT, other STRING")
    part = lab.path("part")
    partly = lab.engine.archive_changes(lab.path("src"), part, bootstrap=False).stream
    cases: list[tuple[tuple[object, ...], dict[str, object], type[CdcError], str]] = [
        (("none", copy, "id"), {}, StreamNotFound, "none"),
        (("s", lab.path("none"), "id"), {}, TableNotFound, "none"),
        (("s", copy), {}, InvalidRequest, "without a key"),
        (("s", copy, "nope"), {}, InvalidRequest, "cannot be verified by this key"),
        (("s", lab.path("wide"), "id"), {}, InvalidRequest, "the source has no column other"),
        (("appended", copy, "id"), {}, InvalidRequest, "append_only"),
        (("first", copy, "id"), {}, InvalidRequest, "initial rows"),
        (("s", lab.path("log"), "id"), {}, InvalidRequest, "it is an archive"),
        ((stream, lab.path("log")), {"heal": True}, InvalidRequest, "cannot be healed"),
        (("s", copy, 5), {}, InvalidRequest, "argument key"),
        ((partly, part), {}, InvalidRequest, "began without the rows"),
    ]
    for arguments, options, kind, match in cases:
        with pytest.raises(kind, match=match):
            call(*arguments, **options)  # type: ignore[arg-type]
    assert not (lab.root / "state" / "verifications").exists()
