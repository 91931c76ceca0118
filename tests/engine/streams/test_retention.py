"""Streams keep what they have not consumed: extended retention, empty streams, rewinding."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_lab import MERGE_INTO_COPY, StreamLab

from airflow_provider_cdc.engine import (
    Engine,
    InvalidRange,
    InvalidRequest,
    OffsetOf,
    StreamAccessDenied,
    StreamCatalog,
    StreamConflict,
    StreamStale,
    Timestamp,
    Version,
)
from airflow_provider_cdc.engine.catalog.stream_status import StreamStatus
from airflow_provider_cdc.engine.core.retention.table_retention import FILES, LOG
from airflow_provider_cdc.engine.storage.files.scratch import Scratch
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.state.query_results import Results

TRACKED = "'delta.enableRowTracking' = 'true'"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    lab = StreamLab(spark, tmp_path)
    rows = "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')"
    lab.make("src", "id INT, v STRING", rows, properties=TRACKED)
    lab.make("copy", "id INT, v STRING")
    return lab


def in_days(lab: StreamLab, days: float) -> Engine:
    """The engine with a clock that many days ahead."""

    def clock() -> datetime:
        return datetime.now(UTC) + timedelta(days=days)

    return Engine(lab.spark, str(lab.root / "state"), clock=clock)


def properties(lab: StreamLab, table: str = "src") -> dict[str, str]:
    shown = lab.spark.sql(f"SHOW TBLPROPERTIES {lab.name(table)}").collect()
    return {row["key"]: row["value"] for row in shown if "etention" in row["key"]}


def status(lab: StreamLab, name: str) -> StreamStatus:
    return lab.engine.describe_stream(name)


def data_files(lab: StreamLab, table: str = "src") -> int:
    return len(list(Path(lab.path(table)).glob("*.parquet")))


@pytest.mark.thorough
def test_retention_is_extended_while_changes_wait_and_restored_afterwards(
    lab: StreamLab,
) -> None:
    lab.sql(f"ALTER TABLE {{src}} SET TBLPROPERTIES ('{FILES}' = 'interval 3 days')")
    before = properties(lab)
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    assert not lab.engine.maintain_streams().sources[0].has_changed
    assert properties(lab) == before

    (source,) = in_days(lab, 1.5).maintain_streams().sources
    assert (source.has_changed, source.streams) == (True, ("s",))
    assert (source.own, source.extension) == (timedelta(days=3), timedelta(days=14))
    extended = properties(lab)
    assert extended[FILES] == f"interval {14 * 24 * 3600} seconds"
    assert LOG not in extended  # a month is long enough
    version = lab.version("src")
    (again,) = in_days(lab, 1.5).maintain_streams().sources
    assert (again.has_changed, again.extension) == (False, source.extension)
    assert lab.version("src") == version

    lab.consume(MERGE_INTO_COPY)
    (source,) = lab.engine.maintain_streams().sources
    assert (source.has_changed, source.extension, source.streams) == (True, None, ())
    assert properties(lab) == before


@pytest.mark.thorough
def test_extension_keeps_files_from_vacuum_and_reports_their_size(lab: StreamLab) -> None:
    lab.sql(f"ALTER TABLE {{src}} SET TBLPROPERTIES ('{FILES}' = 'interval 0 seconds')")
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("UPDATE {src} SET v = 'c'", "OPTIMIZE {src}", "UPDATE {src} SET v = 'd'")
    report = lab.engine.maintain_streams()
    before = data_files(lab)
    lab.sql("VACUUM {src}")

    assert data_files(lab) == before
    assert report.bytes_kept > 0
    assert len(lab.seen("s")) == 4
    lab.consume(MERGE_INTO_COPY)
    (source,) = lab.engine.maintain_streams().sources
    assert (source.has_changed, source.bytes_kept) == (False, 0)
    # The owner's own retention is zero, so the next change would not be kept.
    lab.sql("UPDATE {src} SET v = 'e'", "VACUUM {src}")
    assert len(lab.seen("s")) == 4
    lab.engine.drop_stream("s")
    lab.engine.maintain_streams()
    lab.sql("VACUUM {src}")
    assert data_files(lab) < before


@pytest.mark.thorough
def test_stream_whose_files_were_vacuumed_raises_and_extends_nothing(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), max_data_extension=timedelta(0))
    lab.sql(f"ALTER TABLE {{src}} SET TBLPROPERTIES ('{FILES}' = 'interval 0 seconds')")
    lab.sql("DELETE FROM {src} WHERE id > 0")
    assert not any(source.has_changed for source in lab.engine.maintain_streams().sources)
    lab.sql("VACUUM {src}")
    with pytest.raises(StreamStale, match="missing"):
        lab.changes("s")
    with pytest.raises(StreamStale):
        lab.engine.stream_has_data("s")
    with pytest.raises(StreamStale):
        lab.consume(MERGE_INTO_COPY)
    assert lab.rows("copy") == []


@pytest.mark.thorough
def test_stream_with_its_own_extension_keeps_data_that_long(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), max_data_extension=timedelta(days=60))
    lab.engine.create_stream("t", on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    in_days(lab, 6.5).maintain_streams()
    assert properties(lab)[FILES] == properties(lab)[LOG] == f"interval {60 * 86400} seconds"
    first = Timestamp(lab.committed_at("src", lab.version("src") - 1)).moment
    (status, _) = lab.engine.describe_streams()
    assert timedelta(days=59) < status.stale_after - first < timedelta(days=61)

    lab.engine.alter_stream("s", max_data_extension=timedelta(days=3))
    in_days(lab, 6.5).maintain_streams()
    assert properties(lab)[FILES] == f"interval {14 * 86400} seconds"
    assert lab.engine.describe_stream("s").stale_after < status.stale_after


@pytest.mark.thorough
def test_source_without_streams_gets_its_own_retention_back(lab: StreamLab) -> None:
    before = properties(lab)
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    in_days(lab, 6.5).maintain_streams()
    assert properties(lab) != before
    lab.engine.drop_stream("s")
    (source,) = lab.engine.maintain_streams().sources
    assert (source.has_changed, source.extension) == (True, None)
    assert properties(lab) == before
    assert lab.engine.maintain_streams().sources == ()


@pytest.mark.thorough
def test_two_state_folders_extend_one_table_independently(lab: StreamLab) -> None:
    before = properties(lab)
    other = StreamLab(lab.spark, lab.root / "other")
    for engine in (lab.engine, other.engine):
        engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    for each in (lab, other):
        in_days(each, 6.5).maintain_streams()
    lab.engine.advance_stream("s")
    lab.engine.maintain_streams()
    assert properties(lab)[FILES] == f"interval {14 * 86400} seconds"
    other.engine.advance_stream("s")
    other.engine.maintain_streams()
    assert properties(lab) == before


@pytest.mark.thorough
@pytest.mark.parametrize(
    "own",
    [
        {LOG: "interval 60 days"},
        {FILES: "interval 40 days", LOG: "interval 60 days"},
        {FILES: "interval 1 days", LOG: "interval 2 days"},
    ],
)
def test_extension_beyond_the_default_log_retention_is_set_and_reverted(
    lab: StreamLab, own: dict[str, str]
) -> None:
    pairs = ", ".join(f"'{name}' = '{text}'" for name, text in own.items())
    lab.sql(f"ALTER TABLE {{src}} SET TBLPROPERTIES ({pairs})")
    before = properties(lab)
    lab.engine.create_stream("s", on_table=lab.path("src"), max_data_extension=timedelta(days=45))
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    (source,) = in_days(lab, 40).maintain_streams().sources
    assert (source.problem, source.extension) == (None, timedelta(days=45))
    lab.engine.alter_stream("s", max_data_extension=timedelta(days=41))
    (source,) = in_days(lab, 40).maintain_streams().sources
    assert (source.problem, source.extension) == (None, timedelta(days=41))
    lab.engine.drop_stream("s")
    (source,) = lab.engine.maintain_streams().sources
    assert (source.problem, source.extension) == (None, None)
    assert properties(lab) == before


def test_table_named_by_path_and_by_catalog_is_kept_for_both_streams(
    lab: StreamLab,
) -> None:
    lab.sql(f"CREATE TABLE kept_twice USING delta LOCATION '{lab.path('src')}'")
    try:
        longest = timedelta(days=60)
        lab.engine.create_stream("a", on_table=lab.path("src"), max_data_extension=longest)
        lab.engine.create_stream("b", on_table="kept_twice")
        locations = [base.location for each in "ab" for base in status(lab, each).base_tables]
        assert len(set(locations)) == 2
        lab.sql("INSERT INTO {src} VALUES (3, 'c')")
        (source,) = in_days(lab, 6.5).maintain_streams().sources
        assert (source.streams, source.extension) == (("a", "b"), longest)
        version = lab.version("src")
        in_days(lab, 6.5).maintain_streams()
        assert lab.version("src") == version
        for each in "ab":
            lab.engine.drop_stream(each)
        assert [each.extension for each in lab.engine.maintain_streams().sources] == [None]
        assert lab.engine.maintain_streams().sources == ()
    finally:
        lab.sql("DROP TABLE kept_twice")


def test_maintenance_continues_after_a_table_that_cannot_be_changed(lab: StreamLab) -> None:
    lab.make("missing", "id INT", properties=TRACKED)
    for name in ("missing", "src"):
        lab.engine.create_stream(f"on_{name}", on_table=lab.path(name))
        lab.sql(f"INSERT INTO {{{name}}} (id) VALUES (3)")
    log = Path(lab.path("missing"), "_delta_log")
    log.rename(log.with_name("moved"))
    report = in_days(lab, 6.5).maintain_streams()
    assert [source.streams for source in report.sources if source.has_changed] == [("on_src",)]


def test_probed_empty_stream_moves_over_commits_without_changes(
    lab: StreamLab,
) -> None:
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.engine.create_stream("appended", on_table=lab.path("src"), mode="append_only")
    lab.sql("OPTIMIZE {src}")
    offset = lab.engine.describe_stream("s").offset_version
    assert lab.engine.stream_has_data("s") is False
    assert lab.engine.describe_stream("s").offset_version == offset  # the offset is young

    later = in_days(lab, 20)
    assert later.describe_stream("s").stale is False
    assert later.stream_has_data("s", exact=False) is False
    assert later.describe_stream("s").offset_version == lab.version("src")
    record = lab.engine.stream_history("s")[-1]
    assert (record.transition, record.stream.last_consumed_at) == ("skipped", None)

    lab.sql(
        "MERGE INTO {src} USING (SELECT 1) ON true WHEN MATCHED THEN UPDATE SET v = 'x'"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (9, 'z')",
    )
    assert in_days(lab, 20).maintain_streams().skipped == ()  # only the rows of new files show it
    assert in_days(lab, 20).stream_has_data("appended") is False
    assert lab.engine.describe_stream("appended").offset_version == lab.version("src")
    lab.sql("ALTER TABLE {src} SET TBLPROPERTIES ('a' = 'b')")
    assert in_days(lab, 20).maintain_streams().skipped == ("appended",)
    lab.sql("UPDATE {src} SET v = 'y'")  # its log shows that it inserts nothing
    assert in_days(lab, 20).maintain_streams().skipped == ("appended",)
    assert lab.engine.stream_has_data("s") is True


@pytest.mark.thorough
def test_stream_whose_changes_were_reverted_stays_fresh_by_an_exact_probe(
    lab: StreamLab,
) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("UPDATE {src} SET v = 'x' WHERE id = 1", "UPDATE {src} SET v = 'a' WHERE id = 1")
    later = in_days(lab, 5)
    assert later.stream_has_data("s", exact=False) is True
    assert later.describe_stream("s").offset_version < lab.version("src")
    assert later.stream_has_data("s") is False
    assert later.describe_stream("s").offset_version == lab.version("src")


@pytest.mark.in_ci("True")
@pytest.mark.parametrize("is_looked_at", [False, True])
def test_surviving_stream_returns_rows_deleted_and_then_restored(
    lab: StreamLab, is_looked_at: bool
) -> None:
    lab.engine.create_stream(
        "s", on_table=lab.path("src"), mode="append_only", append_semantics="surviving"
    )
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    version = lab.version("src")
    lab.sql("DELETE FROM {src} WHERE id = 3")
    if is_looked_at:
        assert in_days(lab, 2).stream_has_data("s") is False
    else:
        assert in_days(lab, 2).maintain_streams().skipped == ()
    lab.sql(f"RESTORE TABLE {{src}} TO VERSION AS OF {version}")
    assert lab.seen("s") == [(3, "c", "INSERT", False)]


def test_engine_opens_if_leftovers_cannot_be_swept(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("another principal's")

    for swept in (Scratch, Results):
        monkeypatch.setattr(swept, "sweep", refuse)
    with caplog.at_level("INFO"):
        lab.new_engine()
    assert caplog.text.count("another principal's") == 2


def test_sensor_without_a_jvm_keeps_an_empty_stream_fresh(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("ALTER TABLE {src} SET TBLPROPERTIES ('a' = 'b')")
    catalog = StreamCatalog(
        str(lab.root / "state"), clock=lambda: datetime.now(UTC) + timedelta(days=2)
    )
    assert catalog.probe_stream("s").may_have_data is False
    assert catalog.get_stream("s").offset.version == lab.version("src")


def test_probe_without_write_access_to_the_state_folder_still_answers(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("ALTER TABLE {src} SET TBLPROPERTIES ('a' = 'b')")

    def refuse(*_: object, **__: object) -> None:
        raise InvalidRequest("state folder", "cannot be written")

    monkeypatch.setattr(Registry, "transact", refuse)
    assert in_days(lab, 2).stream_has_data("s", exact=False) is False


@pytest.mark.thorough
def test_replay_of_a_rewound_stream_into_a_merge_keeps_the_target(
    lab: StreamLab,
) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), at=Version(0))
    versions = []
    for number in range(20):
        lab.sql(f"INSERT INTO {{src}} VALUES ({number + 10}, 'new')")
        if number % 5 == 0:
            lab.sql(f"UPDATE {{src}} SET v = 'v{number}' WHERE id IN (1, {number + 10})")
            lab.consume(MERGE_INTO_COPY)
            versions.append(lab.engine.describe_stream("s").offset_version)
    lab.sql("DELETE FROM {src} WHERE id = 12")
    lab.consume(MERGE_INTO_COPY)
    wanted = lab.rows("copy")
    assert wanted == lab.rows("src")

    rewound = lab.engine.rewind_stream("s", to=Version(0))
    assert rewound.offset.version == 0
    lab.consume(MERGE_INTO_COPY)
    assert lab.rows("copy") == wanted

    history = lab.engine.stream_history("s")
    moved = [record for record in history if record.transition == "rewound"]
    assert [record.stream.offset.version for record in moved] == [0]
    committed = [r.stream.offset.version for r in history if r.transition == "committed"]
    assert committed[: len(versions)] == versions


def test_rewinding_is_refused_ahead_while_consuming_and_without_access(
    lab: StreamLab,
) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), at=Version(0), consumers=["carla"])
    lab.engine.create_stream("now", on_table=lab.path("src"))
    with pytest.raises(InvalidRange, match="a point that it has not reached"):
        lab.engine.rewind_stream("s", to=OffsetOf("now"))
    emil = Engine(lab.spark, str(lab.root / "state"), principal="emil")
    with pytest.raises(StreamAccessDenied):
        emil.rewind_stream("s", to=Version(0))
    with lab.engine.transaction(consumer="c") as tx:
        tx.stream("s").count()
        with pytest.raises(StreamConflict, match="rewound"):
            lab.engine.rewind_stream("s", to=Version(0))


def test_rewinding_to_a_version_of_missing_files_is_refused_without_moving(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql(f"ALTER TABLE {{src}} SET TBLPROPERTIES ('{FILES}' = 'interval 0 seconds')")
    start = lab.engine.describe_stream("s").offset_version
    lab.sql("DELETE FROM {src} WHERE id > 0")
    lab.consume(MERGE_INTO_COPY)
    lab.sql("VACUUM {src}")
    with pytest.raises(StreamStale, match="missing"):
        lab.engine.rewind_stream("s", to=Version(start))
    assert lab.engine.describe_stream("s").offset_version > start
