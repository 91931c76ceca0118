"""The change feed of tables whose row ids, files or logs are not as usual."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from feed_lab import by_commit
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import ChangeTrackingDisabled

TRACKED = "'delta.enableRowTracking' = 'true'"
COPIED = f"{TRACKED}, 'delta.enableDeletionVectors' = 'false'"
ROWS = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')"
UPDATE = "UPDATE {t} SET v = 'x' WHERE id = 1"
UPDATED = Counter({("update_preimage", 1, "a"): 1, ("update_postimage", 1, "x"): 1})

Maker = Callable[..., str]


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    return StreamLab(spark, tmp_path_factory.mktemp("feed"))


@pytest.fixture
def make(lab: StreamLab, tmp_path: Path) -> Maker:
    def made(*writes: str, properties: str = TRACKED) -> str:
        name = tmp_path.name
        lab.make(name, "id INT, v STRING", *writes, properties=properties)
        return name

    return made


@pytest.mark.parametrize("comes_back", [False, True])
def test_rows_from_before_row_tracking_was_dropped_keep_their_ids(
    lab: StreamLab, make: Maker, comes_back: bool
) -> None:
    again = f"ALTER TABLE {{t}} SET TBLPROPERTIES ({TRACKED})"
    table = make(
        ROWS,
        UPDATE,
        "ALTER TABLE {t} DROP FEATURE rowTracking",
        *([again, "DELETE FROM {t} WHERE id = 2"] if comes_back else []),
        properties=COPIED,
    )
    path = lab.path(table)
    found = by_commit(lab.engine.change_feed(path, from_version=0))
    assert found[2] == UPDATED
    assert len(found) == (3 if comes_back else 2)
    if comes_back:
        with pytest.raises(ChangeTrackingDisabled):
            lab.engine.change_feed(path, from_version=0, row_ids=True)


def test_file_whose_rows_many_commits_delete_is_read_once(lab: StreamLab, make: Maker) -> None:
    deletes = [f"DELETE FROM {{t}} WHERE id = {number}" for number in range(8)]
    table = make(
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ CAST(id AS INT), 'v' FROM range(10)",
        *deletes,
        properties=f"{TRACKED}, 'delta.enableDeletionVectors' = 'true'",
    )
    rows = lab.engine.change_feed(lab.path(table), from_version=2)
    assert by_commit(rows) == {
        number + 2: Counter({("delete", number, "v"): 1}) for number in range(8)
    }
    assert len(rows.inputFiles()) == 1


@pytest.mark.parametrize("back", [(1,), (2, 1)], ids=["at_once", "in_two_steps"])
def test_rows_deleted_again_after_a_restore_belong_to_their_own_commits(
    lab: StreamLab, make: Maker, back: tuple[int, ...]
) -> None:
    deletes = [f"DELETE FROM {{t}} WHERE id = {number}" for number in range(2)]
    table = make(
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ CAST(id AS INT), 'v' FROM range(10)",
        *deletes,
        *(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}" for version in back),
        *deletes,
        properties=f"{TRACKED}, 'delta.enableDeletionVectors' = 'true'",
    )
    one, two = Counter({("delete", 0, "v"): 1}), Counter({("delete", 1, "v"): 1})
    restored = [_inserted(one + two)] if len(back) == 1 else [_inserted(two), _inserted(one)]
    steps = [one, two, *restored, one, two]
    found = by_commit(lab.engine.change_feed(lab.path(table), from_version=2))

    assert found == dict(enumerate(steps, 2))


def _inserted(deleted: Counter[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    return Counter({("insert", *change[1:]): count for change, count in deleted.items()})


def test_rows_of_files_without_row_ids_are_refused(lab: StreamLab, make: Maker) -> None:
    table = make(ROWS, UPDATE, properties=COPIED)
    log = Path(lab.path(table), "_delta_log", f"{2:020d}.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        for kind in ("add", "remove"):
            line.get(kind, {}).pop("baseRowId", None)
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ChangeTrackingDisabled, match="without baseRowId"):
        lab.engine.change_feed(lab.path(table), from_version=2)


def test_oldest_commit_of_a_log_that_was_cleaned_up_is_readable(
    lab: StreamLab, make: Maker
) -> None:
    table = make(
        ROWS,
        UPDATE,
        "DELETE FROM {t} WHERE id = 2",
        properties=f"{COPIED}, 'delta.checkpointInterval' = '2'",
    )
    for version in (0, 1):
        Path(lab.path(table), "_delta_log", f"{version:020d}.json").unlink()
    found = by_commit(lab.engine.change_feed(lab.path(table), from_version=2))
    assert found == {2: UPDATED, 3: Counter({("delete", 2, "b"): 1})}
    since = lab.engine.enable_change_tracking(lab.path(table))
    assert since.row_tracking_since == 2
