"""Streams themselves: creating, showing, describing and dropping them, and the refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession
from stream_lab import Crash, CrashAt, StreamLab

from airflow_provider_cdc.engine import (
    ChangeTrackingDisabled,
    Engine,
    InvalidName,
    InvalidRequest,
    NotADeltaTable,
    ProtocolPoint,
    StreamConflict,
    StreamExists,
    StreamNotFound,
    StreamStale,
    TableNotFound,
)
from airflow_provider_cdc.engine.core.model.stream import AppendSemantics, ColumnStyle, StreamMode
from airflow_provider_cdc.engine.spark.tables.delta_tables import Tables
from airflow_provider_cdc.engine.storage.registry.registry import Registry

TRACKED = "'delta.enableRowTracking' = 'true'"
ENABLED = "delta.enableRowTracking"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """A tracked table ``src`` without a stream."""
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", properties=TRACKED)
    return lab


@pytest.fixture
def untracked(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """A table ``plain`` without row tracking, with one row."""
    lab = StreamLab(spark, tmp_path)
    lab.make("plain", "id INT", "INSERT INTO {t} VALUES (1)")
    return lab


def properties(lab: StreamLab, table: str) -> dict[str, str]:
    shown = lab.spark.sql(f"SHOW TBLPROPERTIES {lab.name(table)}").collect()
    return {row["key"]: row["value"] for row in shown}


def create(lab: StreamLab, name: str = "s", table: str = "src", **options: Any) -> Any:
    return lab.engine.create_stream(name, on_table=lab.path(table), **options)


def test_stream_on_another_stream_is_refused_with_an_explanation(lab: StreamLab) -> None:
    create(lab)
    for on in ({"on_table": "S"}, {"on_view": "s"}):
        with pytest.raises(InvalidRequest, match="s is a stream, and holds no rows"):
            lab.engine.create_stream("t", **on)


def test_stream_does_not_take_the_name_of_a_table_or_a_view(lab: StreamLab) -> None:
    create(lab)
    lab.sql(f"CREATE TABLE taken (id INT) USING delta LOCATION '{lab.path('taken')}'")
    lab.spark.range(1).createOrReplaceTempView("looked_at")
    try:
        for name in ("taken", "LOOKED_AT"):
            for take in (
                lambda name: create(lab, name),
                lambda name: lab.engine.rename_stream("s", name),
                lambda name: lab.engine.clone_stream(name, "s"),
                lab.engine.undrop_stream,
            ):
                with pytest.raises(InvalidName, match="is taken"):
                    take(name)
        assert [status.name for status in lab.engine.describe_streams()] == ["s"]
    finally:
        lab.spark.catalog.dropTempView("looked_at")
        lab.sql("DROP TABLE taken")


@pytest.mark.thorough
def test_stream_renamed_cloned_and_undropped_is_read_under_its_name(lab: StreamLab) -> None:
    create(lab)
    lab.sql("INSERT INTO {src} VALUES (1, 'a')")
    lab.engine.rename_stream("s", "renamed")
    lab.engine.clone_stream("clone", "renamed")
    lab.engine.drop_stream("renamed")
    lab.engine.undrop_stream("Renamed")
    assert lab.engine.alter_stream("renamed", comment="mine").comment == "mine"
    assert lab.changes("renamed") == lab.changes("clone") != []
    lab.consume("CREATE TABLE {copy} USING delta AS SELECT id FROM renamed")
    assert (lab.seen("renamed"), len(lab.seen("clone"))) == ([], 1)


def test_created_stream_is_at_the_newest_version_and_holds_no_data(lab: StreamLab) -> None:
    lab.sql("INSERT INTO {src} VALUES (1, 'a')")

    stream = create(lab, comment="why", owner="me")

    assert stream.offset.version == 1
    assert (stream.mode, stream.comment, stream.owner) == (StreamMode.STANDARD, "why", "me")
    assert lab.engine.stream_has_data("s") is False
    assert lab.seen("s") == []


@pytest.mark.parametrize(
    "name",
    ["x`; DROP TABLE y", "", " ", "1s", "a b", "a.b", "s;", "a-b", "'s'", "`s`", "x" * 256, "s\n"],
)
def test_stream_creation_refuses_a_name_that_is_not_an_identifier(
    lab: StreamLab, name: str
) -> None:
    with pytest.raises(InvalidName, match="is not a valid name"):
        create(lab, name)
    assert lab.engine.describe_streams() == []
    assert lab.version("src") == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [("mode", "upsert_only"), ("append_semantics", "all"), ("column_style", "oracle")],
)
def test_stream_option_that_is_unknown_is_refused(lab: StreamLab, option: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{value}.*{option} (to )?one of"):
        create(lab, **{option: value})
    assert lab.engine.describe_streams() == []


def test_stream_options_are_kept(lab: StreamLab) -> None:
    create(lab, mode="append_only", append_semantics="surviving", column_style="databend")

    stream = lab.engine._parts.catalog.get_stream("s")
    assert stream.mode is StreamMode.APPEND_ONLY
    assert stream.append_semantics is AppendSemantics.SURVIVING
    assert stream.column_style is ColumnStyle.DATABEND
    assert lab.engine.read_stream("s").columns[2:] == [
        "change$action",
        "change$is_update",
        "change$row_id",
    ]


@pytest.mark.parametrize(
    ("table", "fix"),
    [
        ("/nowhere/at all", "check the path"),
        ("missing", "current catalog and schema"),
        ("missing.table", "current catalog and schema"),
        ("default.`a.b c`", "current catalog and schema"),
    ],
)
def test_table_that_does_not_exist_is_refused(lab: StreamLab, table: str, fix: str) -> None:
    with pytest.raises(TableNotFound, match="does not exist") as caught:
        lab.engine.create_stream("s", on_table=table)
    assert fix in str(caught.value.fix)


@pytest.mark.parametrize("table", ["", "relative/path", "a.b.c.d", "t; DROP TABLE y"])
def test_stream_on_an_invalid_table_name_is_refused(lab: StreamLab, table: str) -> None:
    with pytest.raises((InvalidName, TableNotFound)):
        lab.engine.create_stream("s", on_table=table)


@pytest.fixture
def other_things(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE SCHEMA things")
    spark.sql("CREATE TABLE things.flat USING parquet AS SELECT 1 AS id")
    spark.sql("CREATE VIEW things.seen AS SELECT 1 AS id")
    yield
    spark.sql("DROP SCHEMA things CASCADE")


@pytest.mark.usefixtures("other_things")
def test_source_that_is_not_a_delta_table_is_refused(lab: StreamLab) -> None:
    lab.spark.range(1).write.parquet(lab.path("files"))
    lab.spark.range(1).createOrReplaceTempView("passing")
    try:
        for name, fix in {
            "things.flat": "CONVERT TO DELTA",
            "things.seen": "pass on_view",
            "passing": "pass on_view",
            lab.path("files"): "CONVERT TO DELTA",
        }.items():
            with pytest.raises(NotADeltaTable, match=f"is not a Delta table.*{fix}"):
                lab.engine.create_stream("s", on_table=name)
    finally:
        lab.spark.catalog.dropTempView("passing")
    assert lab.engine.describe_streams() == []


def test_name_of_an_existing_stream_is_refused_in_any_case(lab: StreamLab) -> None:
    create(lab, "Changes")

    with pytest.raises(StreamExists, match="exists already"):
        create(lab, "CHANGES")


def test_if_not_exists_leaves_an_existing_stream_unchanged(untracked: StreamLab) -> None:
    untracked.make("src", "id INT", properties=TRACKED)
    made = create(untracked)

    assert create(untracked, "S", "plain", mode="append_only", if_not_exists=True) == made
    assert ENABLED not in properties(untracked, "plain")
    assert untracked.version("plain") == 1


@pytest.mark.thorough
def test_first_stream_on_a_table_switches_row_tracking_on(untracked: StreamLab) -> None:
    stream = create(untracked, table="plain")

    assert properties(untracked, "plain")[ENABLED] == "true"
    assert stream.offset.version == untracked.version("plain")
    untracked.sql("UPDATE {plain} SET id = 2")
    assert untracked.seen("s") == [(1, "DELETE", True), (2, "INSERT", True)]
    version = untracked.version("plain")
    create(untracked, "again", "plain")
    assert untracked.version("plain") == version


@pytest.mark.thorough
@pytest.mark.parametrize("earlier", [None, "false"])
def test_failed_creation_leaves_tracking_unchanged(
    untracked: StreamLab, monkeypatch: pytest.MonkeyPatch, earlier: str | None
) -> None:
    if earlier:
        untracked.sql(f"ALTER TABLE {{plain}} SET TBLPROPERTIES ('{ENABLED}' = '{earlier}')")

    def refuse(*_: Any, **__: Any) -> None:
        raise Crash("the registry cannot be written")

    monkeypatch.setattr(Registry, "transact", refuse)
    with pytest.raises(Crash):
        create(untracked, table="plain")

    assert properties(untracked, "plain").get(ENABLED) == earlier
    assert untracked.rows("plain") == [(1,)]
    monkeypatch.undo()
    assert untracked.engine.describe_streams() == []
    create(untracked, table="plain")
    assert properties(untracked, "plain")[ENABLED] == "true"


def test_creation_that_did_not_switch_tracking_on_leaves_it_on(
    untracked: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta lets one of two creations switch row tracking on; the other one has nothing to take
    back.
    """
    switch_on = Tables.set_properties

    def too_late(tables: Tables, *given: Any) -> None:
        switch_on(tables, *given)
        raise RuntimeError("MetadataChangedException")

    monkeypatch.setattr(Tables, "set_properties", too_late)
    with pytest.raises(RuntimeError, match="MetadataChanged"):
        create(untracked, table="plain")

    assert properties(untracked, "plain")[ENABLED] == "true"


def test_creation_is_refused_if_tracking_is_switched_off_meanwhile(
    untracked: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_on = Tables.set_properties

    def in_vain(tables: Tables, name: str, values: Any) -> None:
        switch_on(tables, name, dict.fromkeys(values, None))

    monkeypatch.setattr(Tables, "set_properties", in_vain)
    with pytest.raises(StreamConflict, match="switched row tracking off meanwhile"):
        create(untracked, table="plain")
    assert untracked.engine.describe_streams() == []


def test_failed_creation_beside_another_stream_leaves_tracking_on(
    untracked: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another stream is created on the table between this one's switch and its registration."""
    transact = Registry.transact
    pending = [None]

    def other_first(registry: Registry, *arguments: Any, **named: Any) -> Any:
        if pending:
            pending.pop()
            create(untracked, "other", "plain")
            raise Crash("the registry cannot be written")
        return transact(registry, *arguments, **named)

    monkeypatch.setattr(Registry, "transact", other_first)
    with pytest.raises(Crash):
        create(untracked, table="plain")

    assert properties(untracked, "plain")[ENABLED] == "true"
    assert [status.name for status in untracked.engine.describe_streams()] == ["other"]


@pytest.mark.thorough
def test_tracking_that_is_switched_off_disables_the_stream(untracked: StreamLab) -> None:
    create(untracked, table="plain")
    untracked.sql(f"ALTER TABLE {{plain}} SET TBLPROPERTIES ('{ENABLED}' = 'false')")

    with pytest.raises(ChangeTrackingDisabled, match="switched row tracking off"):
        untracked.engine.stream_has_data("s")
    status = untracked.engine.describe_stream("s")
    assert status.stale
    assert status.invalid_reason is not None
    assert "switched row tracking off" in status.invalid_reason


@pytest.mark.thorough
def test_named_table_at_an_odd_location_can_have_a_stream(lab: StreamLab) -> None:
    spark = lab.spark
    place = lab.path("a place. b")
    spark.sql(
        f"CREATE TABLE well_named (id INT) USING delta LOCATION '{place}' TBLPROPERTIES ({TRACKED})"
    )
    try:
        stream = lab.engine.create_stream("s", on_table="`default`.`well_named`")
        spark.sql("INSERT INTO well_named VALUES (7)")
        assert lab.seen("s") == [(7, "INSERT", False)]
        lab.consume("INSERT INTO {src} SELECT id, METADATA$ACTION FROM s")
    finally:
        spark.sql("DROP TABLE well_named")
    assert stream.source.location.endswith("a place. b")
    assert lab.rows("src") == [(7, "INSERT")]


@pytest.mark.in_ci("a b.c")
@pytest.mark.parametrize("table", ["a b.c", "d.e", "100%", "tä;'q'"])
def test_table_with_odd_characters_in_its_path_can_have_a_stream(
    lab: StreamLab, table: str
) -> None:
    lab.spark.sql(
        f"CREATE TABLE delta.`{lab.path(table)}` (id INT) USING delta TBLPROPERTIES ({TRACKED})"
    )
    create(lab, table=table)
    lab.spark.sql(f"INSERT INTO delta.`{lab.path(table)}` VALUES (7)")

    assert lab.seen("s") == [(7, "INSERT", False)]
    lab.consume("INSERT INTO {src} SELECT id, METADATA$ACTION FROM s")
    assert lab.rows("src") == [(7, "INSERT")]


@pytest.mark.thorough
def test_show_and_describe_report_the_status_of_streams(lab: StreamLab) -> None:
    create(lab, "later")
    create(lab, "Earlier", mode="append_only")
    lab.sql("INSERT INTO {src} VALUES (1, 'a')", "OPTIMIZE {src}")
    lab.sql("ALTER TABLE {src} SET TBLPROPERTIES ('note' = 'x')")

    assert [status.name for status in lab.engine.describe_streams()] == ["Earlier", "later"]
    status = lab.engine.describe_stream("EARLIER")
    assert status.base_tables[0].location == lab.path("src")
    assert (status.offset_version, status.latest_version) == (0, lab.version("src"))
    assert status.versions_behind == lab.version("src")
    assert status.commits_behind == 1
    assert status.stale is False


def test_dropped_stream_does_not_exist_and_its_name_is_free(lab: StreamLab) -> None:
    create(lab)
    lab.engine.drop_stream("S")

    assert lab.engine.describe_streams() == []
    for ask in (lab.engine.describe_stream, lab.engine.stream_has_data, lab.engine.read_stream):
        with pytest.raises(StreamNotFound, match="stream s: does not exist"):
            ask("s")
    with pytest.raises(StreamNotFound):
        lab.engine.drop_stream("s")
    lab.engine.drop_stream("s", if_exists=True)
    lab.sql("INSERT INTO {src} VALUES (1, 'a')")
    assert create(lab).offset.version == 1


def test_stream_with_an_open_consumption_is_not_dropped(lab: StreamLab) -> None:
    create(lab)
    lab.make("log", "id INT")
    insert = "INSERT INTO {log} SELECT id FROM s"
    with pytest.raises(Crash):
        lab.consume(insert, engine=lab.new_engine(CrashAt(ProtocolPoint.AFTER_BEGIN)))

    with pytest.raises(StreamConflict, match="cannot be dropped while it is applying"):
        lab.engine.drop_stream("s")

    lab.consume(insert)
    lab.engine.drop_stream("s")


def test_source_that_was_replaced_makes_the_stream_stale(lab: StreamLab) -> None:
    create_table = f"TABLE replaced (id INT) USING delta TBLPROPERTIES ({TRACKED})"
    lab.spark.sql(f"CREATE {create_table}")
    try:
        lab.engine.create_stream("s", on_table="replaced")
        lab.spark.sql(f"CREATE OR REPLACE {create_table}")

        with pytest.raises(StreamStale, match=r"was replaced.*recover each target that must equal"):
            lab.engine.read_stream("s")
        with pytest.raises(StreamStale):
            lab.engine.advance_stream("s")
        assert lab.engine.describe_stream("s").stale
        lab.engine.drop_stream("s")
        lab.engine.create_stream("s", on_table="replaced")
        assert lab.engine.stream_has_data("s") is False
    finally:
        lab.spark.sql("DROP TABLE IF EXISTS replaced")


@pytest.mark.parametrize("state", ["relative/folder", ""])
def test_invalid_state_folder_of_the_engine_is_refused(lab: StreamLab, state: str) -> None:

    with pytest.raises(InvalidRequest, match="state folder"):
        Engine(lab.spark, state)


@pytest.mark.thorough
def test_delta_rs_can_write_a_source_again_after_features_are_dropped(
    untracked: StreamLab,
) -> None:
    path = untracked.path("plain")
    row = pa.table({"id": pa.array([2], pa.int32())})
    create(untracked, table="plain")

    with pytest.raises(CommitFailedError, match="Unsupported table features required"):
        write_deltalake(path, row, mode="append")
    assert DeltaTable(path).to_pyarrow_table().num_rows == 1

    for feature in ("rowTracking", "domainMetadata"):
        untracked.sql(f"ALTER TABLE {{plain}} DROP FEATURE {feature}")
    write_deltalake(path, row, mode="append")
    assert untracked.rows("plain") == [(1,), (2,)]
    untracked.sql(f"ALTER TABLE {{plain}} SET TBLPROPERTIES ({TRACKED})")
    assert untracked.engine.describe_stream("s").stale
    with pytest.raises(StreamStale, match="set up row tracking again"):
        untracked.engine.read_stream("s")
