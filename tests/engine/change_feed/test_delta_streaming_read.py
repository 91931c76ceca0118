"""Delta's own streaming read of the feed works beside streams, as its documentation says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from stream_lab import StreamLab

BOTH = "'delta.enableChangeDataFeed' = 'true', 'delta.enableRowTracking' = 'true'"
ROWS = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')"
LATER = (
    "UPDATE {src} SET v = 'x' WHERE id = 1",
    "INSERT INTO {src} VALUES (4, 'd')",
    "DELETE FROM {src} WHERE id = 4",
)
Change = tuple[str, int, int]


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """A table ``src`` of three rows at version 1, with the feed on."""
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", ROWS, properties=BOTH)
    return lab


def run(lab: StreamLab, checkpoint: str = "checkpoint", **options: Any) -> list[list[Change]]:
    """Run an AvailableNow query of the feed: the changes of each of its batches."""
    found: list[list[Change]] = []

    def take(rows: Any, _: int) -> None:
        columns = rows.select("_change_type", "id", "_commit_version")
        found.append(sorted(tuple(row) for row in columns.collect()))

    reader = lab.spark.readStream.format("delta").option("readChangeFeed", "true")
    query = (
        reader.options(**options)
        .load(lab.path("src"))
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", lab.path(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


def ours(lab: StreamLab, first: int) -> Counter[Change]:
    """The same changes by the engine."""
    rows = lab.engine.change_feed(lab.path("src"), from_version=first)
    columns = rows.select("_change_type", "id", "_commit_version")
    return Counter((row[0], row[1], row[2]) for row in columns.collect())


def flat(batches: Iterable[list[Change]]) -> Counter[Change]:
    return Counter(change for batch in batches for change in batch)


def test_streaming_read_begins_with_all_rows_and_continues_from_its_checkpoint(
    lab: StreamLab,
) -> None:
    lab.sql(LATER[0])
    first = run(lab)
    lab.sql(*LATER[1:])
    second = run(lab)

    # The snapshot has the version at which the query began.
    assert flat(first) == Counter({("insert", number, 2): 1 for number in (1, 2, 3)})
    assert flat(second) == ours(lab, 3)
    assert run(lab) == []


@pytest.mark.thorough
def test_streaming_read_from_a_version_continues_a_target_that_holds_the_one_before(
    lab: StreamLab,
) -> None:
    lab.sql(*LATER)
    run(lab)
    # The checkpoint is lost. The target holds version 2, so a new one begins with version 3.
    found = run(lab, "new", startingVersion=3)

    assert flat(found) == ours(lab, 3)


@pytest.mark.thorough
def test_streaming_read_from_a_time_begins_with_the_first_commit_from_then_on(
    lab: StreamLab,
) -> None:
    lab.sql(*LATER)
    moment = lab.committed_at("src", 3).isoformat(sep=" ").removesuffix("+00:00")
    lab.spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        found = run(lab, startingTimestamp=moment)
    finally:
        lab.spark.conf.unset("spark.sql.session.timeZone")

    assert flat(found) == ours(lab, 3)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "limit", [{"maxFilesPerTrigger": 1}, {"maxBytesPerTrigger": "1b"}], ids=["files", "bytes"]
)
def test_streaming_read_with_a_rate_limit_takes_commits_one_by_one(
    lab: StreamLab, limit: dict[str, Any]
) -> None:
    lab.sql(*LATER)
    found = run(lab, startingVersion=2, **limit)

    assert flat(found) == ours(lab, 2)
    assert len(found) > 1
    # No commit with change files is in two batches.
    versions = [{change[2] for change in batch} for batch in found]
    assert [len(each) for each in versions] == [1] * len(found)
    assert len(found) == len(set().union(*versions))


@pytest.mark.thorough
def test_streaming_read_of_a_version_that_was_cleaned_up_cannot_start(lab: StreamLab) -> None:
    lab.sql(*LATER)
    lab.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    lab.sql("INSERT INTO {src} VALUES (9, 'z')")
    for version in range(4):
        Path(lab.path("src"), "_delta_log", f"{version:020d}.json").unlink()

    with pytest.raises(StreamingQueryException):
        run(lab, startingVersion=2)


@pytest.mark.thorough
def test_streaming_read_stops_at_a_renamed_column_and_ours_does_not(lab: StreamLab) -> None:
    mapped = f"{BOTH}, 'delta.columnMapping.mode' = 'name'"
    lab.make("mapped", "id INT, v STRING", ROWS, properties=mapped)
    other = StreamLab(lab.spark, lab.root)
    Path(lab.path("mapped")).rename(lab.path("renamed"))
    lab.sql("UPDATE {renamed} SET v = 'x' WHERE id = 1")
    lab.sql("ALTER TABLE {renamed} RENAME COLUMN v TO name")
    lab.sql("UPDATE {renamed} SET name = 'y' WHERE id = 2")
    reader = lab.spark.readStream.format("delta").option("readChangeFeed", "true")
    rows = reader.option("startingVersion", 2)
    with pytest.raises(Exception, match="DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE"):
        rows.load(other.path("renamed")).writeStream.format("noop").option(
            "checkpointLocation", lab.path("c")
        ).trigger(availableNow=True).start().awaitTermination()

    found = lab.engine.change_feed(lab.path("renamed"), from_version=2)
    assert found.columns[:2] == ["id", "name"]
    assert found.count() == 4


@pytest.mark.thorough
def test_streaming_read_beside_a_feed_stream_returns_the_same_changes(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), mode="feed")
    lab.sql(*LATER)
    found = run(lab, startingVersion=2)
    stream = lab.engine.read_stream("s").select("_change_type", "id", "_commit_version")

    assert flat(found) == Counter((row[0], row[1], row[2]) for row in stream.collect())
    assert lab.engine.stream_has_data("s")
