"""The change feed equals Delta's own feed, commit by commit, over random histories."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from feed_lab import Feed, as_steps, by_commit, delta_feed, without_rewritten
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from stream_lab import StreamLab

from airflow_provider_cdc.engine.spark.change_feed import pairing

STATEMENTS = 40
PROPERTIES = (
    "'delta.enableChangeDataFeed' = 'true', 'delta.enableRowTracking' = 'true',"
    " 'delta.enableDeletionVectors' = '{}'"
)
FIRST = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('a', id) FROM range(30)"


@dataclass
class History:
    """A table and the random statements that change it."""

    lab: StreamLab
    chance: random.Random
    altered_at: int = 0
    restores: list[int] = field(default_factory=list)

    def step(self) -> None:
        """Run one statement."""
        version = self.lab.version("t")
        statement = self._statement(version)
        self.lab.sql(statement)
        after = self.lab.version("t")
        if statement.startswith("ALTER"):
            self.altered_at = after
        elif statement.startswith("RESTORE") and after > version:
            self.restores.append(after)

    def _statement(self, version: int) -> str:
        chance, low = self.chance, self.chance.randrange(40)
        columns = self.lab.spark.read.format("delta").load(self.lab.path("t")).columns[1:]
        column = chance.choice(columns)
        where = f"id >= {low} AND id < {low + chance.randrange(1, 12)}"
        rows = f"SELECT id, 'n{chance.randrange(9)}' AS v FROM range({low}, {low + 6}, 1, 1)"
        merge = (
            f"MERGE INTO {{t}} t USING ({rows}) s ON t.id = s.id"
            " WHEN MATCHED AND s.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
            " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
        )
        restored = chance.randrange(max(self.altered_at, version - 4), version + 1)
        weights = {
            f"INSERT INTO {{t}} (id, v) {rows}": 6,
            f"UPDATE {{t}} SET {column} = 'u{chance.randrange(5)}' WHERE {where}": 6,
            f"UPDATE {{t}} SET id = id + 1 WHERE {where}": 2,
            f"DELETE FROM {{t}} WHERE {where}": 4,
            merge: 5,
            f"INSERT OVERWRITE {{t}} BY NAME {rows}": 1,
            "OPTIMIZE {t}": 1,
            f"ALTER TABLE {{t}} ADD COLUMN c{len(columns)} STRING": 1 if len(columns) < 4 else 0,
            f"RESTORE TABLE {{t}} TO VERSION AS OF {restored}": 1,
        }
        return chance.choices(list(weights), list(weights.values()))[0]


def parts(first: int, last: int, without: Sequence[int]) -> list[tuple[int, int]]:
    """The ranges of versions from ``first`` through ``last`` without some of them."""
    bounds = [first - 1, *without, last + 1]
    ranges = [(low + 1, high - 1) for low, high in pairwise(bounds)]
    return [(low, high) for low, high in ranges if low <= high]


def check(found: Feed, expected: Feed, restores: Sequence[int]) -> None:
    """Delta deletes and inserts all rows of a restored file, ours only those that were written."""
    kept = [version for version in expected if version not in restores]
    assert {version: found.get(version) for version in kept} == {v: expected[v] for v in kept}
    restored = {version: found[version] for version in restores if version in found}
    returned = {version: expected[version] for version in restores if version in expected}
    # A row that an UPDATE wrote with the same values was written, too.
    assert without_rewritten(as_steps(restored)) == without_rewritten(returned)
    assert set(found) <= set(expected)


@pytest.mark.in_ci("false-0")
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_random_history_has_the_changes_of_delta(
    spark: SparkSession, tmp_path: Path, seed: int, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = StreamLab(spark, tmp_path)
    lab.make("t", "id BIGINT, v STRING", FIRST, properties=PROPERTIES.format(vectors))
    history = History(lab, random.Random(seed))
    for _ in range(STATEMENTS):
        history.step()
    newest, restores = lab.version("t"), history.restores
    expected = by_commit(delta_feed(spark, lab.path("t"), 0))
    assert len(expected) > STATEMENTS / 2

    columns = spark.table(lab.name("t")).columns

    def found(source: str, first: int = 0, last: int = newest) -> Feed:
        rows = lab.engine.change_feed(
            lab.path("t"), from_version=first, to_version=last, source=source
        )
        # A part has the columns of its end.
        later = {name: F.lit(None) for name in columns if name not in rows.columns}
        return by_commit(
            rows.withColumns(later).select(*columns, "_change_type", "_commit_version")
        )

    for source in ("row_tracking", "auto"):
        check(found(source), expected, restores)
    monkeypatch.setattr(pairing, "MANY_REWRITTEN_ROWS", 0)
    in_parts: Feed = {}
    for first, last in parts(0, newest, restores):
        in_parts |= found("row_tracking", first, last)
    check(in_parts, {v: c for v, c in expected.items() if v not in restores}, [])
