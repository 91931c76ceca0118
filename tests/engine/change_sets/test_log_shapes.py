"""Change sets and the log itself: checkpoints, long ranges, and missing history."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from oracle import FILES, MakeTable, SourceTable, at, delete, insert, update
from pyspark.sql import SparkSession
from test_paths import actions, append_commit

from airflow_provider_cdc.engine.core.errors import InvalidRange, StreamStale
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

ROWS = ("1, 'a'", "2, 'b'", "3, 'c'", "4, 'd'")
COLUMNS = "id INT, v STRING"


def log_of(table: SourceTable) -> Path:
    return Path(table.location) / "_delta_log"


def remove_commits(table: SourceTable, through: int) -> None:
    for version in range(through + 1):
        (log_of(table) / f"{version:020d}.json").unlink()
        (log_of(table) / f".{version:020d}.json.crc").unlink(missing_ok=True)
        (log_of(table) / f"{version:020d}.crc").unlink(missing_ok=True)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["classic", "multi-part", "v2 parquet", "v2 json"])
def test_offset_of_a_checkpointed_log_is_that_of_the_whole_log(
    make_table: MakeTable, spark: SparkSession, policy: str
) -> None:
    kind = "v2" if policy.startswith("v2") else "classic"
    table = make_table(
        COLUMNS,
        *ROWS,
        properties=f"'delta.checkpointPolicy' = '{kind}', 'delta.checkpointInterval' = '3'",
    )
    if policy == "multi-part":
        spark.conf.set("spark.databricks.delta.checkpoint.partSize", "2")
    if kind == "v2":
        form = policy.removeprefix("v2 ")
        spark.conf.set("spark.databricks.delta.checkpointV2.topLevelFileFormat", form)
    try:
        table.sql("INSERT INTO {t} VALUES (5, 'e')", "INSERT INTO {t} VALUES (6, 'f')")
    finally:
        spark.conf.unset("spark.databricks.delta.checkpoint.partSize")
        spark.conf.unset("spark.databricks.delta.checkpointV2.topLevelFileFormat")
    names = [path.name for path in log_of(table).iterdir() if "checkpoint" in path.name]
    assert any(name.startswith(f"{3:020d}.checkpoint") for name in names)
    if policy == "multi-part":
        assert f"{3:020d}.checkpoint.0000000002.0000000002.parquet" in names or len(names) > 3
    if kind == "v2":
        assert any(name.endswith(f".{policy.removeprefix('v2 ')}") for name in names)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    whole = table.stream().offset
    for part in log_of(table).glob("*.checkpoint.0000000001.*.parquet"):
        hidden = part.rename(part.with_name("hidden"))
        assert SourceLog(FILES).newest_offset(table.location) == whole
        hidden.rename(part)
    remove_commits(table, through=2)
    found = SourceLog(FILES).newest_offset(table.location)
    assert (found.version, found.fingerprint) == (whole.version, whole.fingerprint)
    assert found.row_id_high_water_mark == whole.row_id_high_water_mark > 0
    assert without_nulls(found.metadata) == without_nulls(whole.metadata)
    assert sorted(found.protocol["readerFeatures"]) == sorted(whole.protocol["readerFeatures"])
    assert sorted(table.check(stream)) == sorted(update(0, (1, "a"), (1, "x")))
    again = at(stream, table)
    table.sql("DELETE FROM {t} WHERE id = 2", "DELETE FROM {t} WHERE id = 3")
    assert table.check(again) == [delete(1, 2, "b"), delete(2, 3, "c")]
    assert len(table.check(stream)) == 4


def without_nulls(action: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in action.items() if value is not None}


@pytest.mark.thorough
def test_change_set_of_a_thousand_commits_is_the_net_difference(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS, "5, 'e'")
    stream, inserted = table.stream(), table.inserted()
    table.sql("INSERT INTO {t} VALUES (0, 'copied')", "UPDATE {t} SET v = 'x' WHERE id = 1")
    template = actions(table, "add", stream.offset.version + 1)[0]
    mark = {"domain": "delta.rowTracking", "removed": False}
    row_id, first = stream.offset.row_id_high_water_mark + 100, table.version + 1
    log, live = log_of(table), []
    for version in range(first, first + 998):
        lines: list[dict[str, object]] = [
            {"commitInfo": {"timestamp": version, "operation": "WRITE"}}
        ]
        if version % 3:
            path = f"copy {version}.parquet"
            shutil.copy(Path(table.location) / str(template["path"]), Path(table.location) / path)
            row_id += 1
            ids = {"baseRowId": row_id, "defaultRowCommitVersion": version}
            live.append({**template, "path": path.replace(" ", "%20"), **ids})
            mark["configuration"] = json.dumps({"rowIdHighWaterMark": row_id})
            lines += [{"add": live[-1]}, {"domainMetadata": mark}]
        elif version % 6:
            removed = [live.pop(0), live.pop()]
            lines += [
                {"remove": {**file, "deletionTimestamp": 1, "extendedFileMetadata": True}}
                for file in removed
            ]
        else:
            lines.append({"txn": {"appId": "somebody", "version": version}})
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    table.sql("DELETE FROM {t} WHERE id = 2")
    assert table.version - stream.offset.version >= 1000
    changes = table.check(stream)
    assert len(changes) == len(live) + 1 + 2 + 1
    assert insert(live[0]["baseRowId"], 0, "copied") in changes  # type: ignore[arg-type]
    assert table.changes(inserted).total() == 1 + len(
        [v for v in range(first, first + 998) if v % 3]
    )


@pytest.mark.thorough
def test_change_set_of_commits_that_were_cleaned_up_is_stale(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS, properties="'delta.checkpointInterval' = '4'")
    table.sql("DELETE FROM {t} WHERE id = 1")
    older = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 2")
    newer = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 3")
    remove_commits(table, through=newer.offset.version)
    with pytest.raises(StreamStale, match=r"commits after its offset .* version 3 is missing"):
        table.read(older)
    # The stream stores all it needs of the commit at its offset, so that commit may be missing.
    assert list(table.changes(newer)) == [delete(2, 3, "c")]
    shutil.rmtree(log_of(table))
    with pytest.raises(StreamStale, match="its source the source is missing"):
        table.read(newer)


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_change_set_of_vacuumed_files_is_stale_before_anything_is_read(
    make_table: MakeTable, spark: SparkSession, vectors: bool
) -> None:
    table = make_table(
        COLUMNS,
        *ROWS,
        vectors=vectors,
        properties="'delta.deletedFileRetentionDuration' = 'interval 0 hours'",
    )
    table.sql("DELETE FROM {t} WHERE id = 1")
    stream = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 2", "REORG TABLE {t} APPLY (PURGE)")
    # Delta refuses time travel here, although the files exist; a change set does not use it.
    assert list(table.changes(stream)) == [delete(1, 2, "b")]
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        table.sql("VACUUM {t} RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with pytest.raises(StreamStale, match=r"files that it has to read were removed.*are missing"):
        table.read(stream)


def test_change_set_of_a_lost_vector_file_is_stale(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    stream = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 1")
    for vector in Path(table.location).glob("deletion_vector_*.bin"):
        vector.unlink()
    with pytest.raises(StreamStale, match=r"1 of 2 are missing, the first is .*deletion_vector_"):
        table.read(stream)


def test_change_set_of_another_table_at_the_same_path_is_stale(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    stream = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 1")
    shutil.rmtree(table.location)
    with pytest.raises(StreamStale, match="is missing"):
        table.read(stream)
    table.sql("CREATE TABLE {t} (id INT, v STRING) USING delta")
    with pytest.raises(StreamStale, match=r"was replaced.*the log ends at version 0"):
        table.read(stream)
    table.sql("INSERT INTO {t} VALUES (1, 'a')")
    with pytest.raises(StreamStale, match=r"was replaced.*version 1 is now a different commit"):
        table.read(stream)


@pytest.mark.thorough
def test_change_set_of_an_external_table_continues_after_drop_and_create(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table(COLUMNS, *ROWS)
    spark.sql(f"CREATE TABLE external_ones USING delta LOCATION '{table.location}'")
    stream = table.stream()
    try:
        spark.sql("DELETE FROM external_ones WHERE id = 1")
        spark.sql("DROP TABLE external_ones")
        spark.sql(f"CREATE TABLE external_ones USING delta LOCATION '{table.location}'")
        spark.sql("DELETE FROM external_ones WHERE id = 2")
    finally:
        spark.sql("DROP TABLE IF EXISTS external_ones")
    assert table.check(stream) == [delete(0, 1, "a"), delete(1, 2, "b")]


def test_range_outside_of_offset_and_newest_version_is_refused(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    stream = table.stream()
    append_commit(table)
    for through in (-1, stream.offset.version - 1, table.version + 1):
        with pytest.raises(InvalidRange, match=rf"version {through}.*expected 1 to 2"):
            table.read(stream, through)
