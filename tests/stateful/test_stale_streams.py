"""Whatever history a source loses, a stream is exact or stale, and never partial or empty by
mistake; VACUUM keeps all files that maintenance has extended.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st
from profiles import examples
from pyspark.sql import SparkSession
from stream_lab import MERGE_INTO_COPY, StreamLab

from airflow_provider_cdc.engine import Engine, StreamStale

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(0)]

WRITES = ("insert", "update", "delete", "optimize")
EVENTS = (
    *("vacuum", "vacuum", "vacuum everything", "clean up the log", "shrink the retention"),
    *("maintain", "maintain", "probe", "consume", "jump", "nothing"),
)
# A write comes before each event, so that there are files to lose.
STEPS = st.lists(
    st.tuples(st.sampled_from(WRITES), st.integers(0, 9), st.sampled_from(EVENTS)),
    min_size=4,
    max_size=9,
)


class World:
    """A source with a stream, and the expected content of both."""

    def __init__(self, lab: StreamLab) -> None:
        self.lab = lab
        self.ahead = timedelta(0)
        self.engine = Engine(lab.spark, str(lab.root / "state"), clock=self._now)
        self.ids = itertools.count(1)
        self.rows: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        # ``may_have_lost``: files that the stream needs now or later may be missing. ``is_kept``:
        # no such file is missing, and none can be removed from now on.
        self.may_have_lost = False
        self.is_kept = False

    def _now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def do(self, step: str, number: int) -> None:
        getattr(self, "_" + step.replace(" ", "_"))(number)

    def _insert(self, number: int) -> None:
        ids = [next(self.ids) for _ in range(number % 3 + 2)]
        self.rows |= dict.fromkeys(ids, number)
        self._sql(f"INSERT INTO {{src}} VALUES {', '.join(f'({id_}, {number})' for id_ in ids)}")

    def _update(self, number: int) -> None:
        self.rows |= {id_: number for id_ in self.rows if id_ % 2 == number % 2}
        self._sql(f"UPDATE {{src}} SET v = {number} WHERE id % 2 = {number % 2}")

    def _delete(self, number: int) -> None:
        self.rows = {id_: v for id_, v in self.rows.items() if id_ % 5 != number % 5}
        self._sql(f"DELETE FROM {{src}} WHERE id % 5 = {number % 5}")

    def _optimize(self, _: int) -> None:
        self._sql("OPTIMIZE {src}")

    def _vacuum(self, _: int) -> None:
        self.may_have_lost |= not self.is_kept
        self._sql("VACUUM {src}")

    def _vacuum_everything(self, _: int) -> None:
        self.may_have_lost, self.is_kept = True, False
        self._sql("VACUUM {src} RETAIN 0 HOURS")

    def _clean_up_the_log(self, _: int) -> None:
        """Remove the commits before a checkpoint, as Delta does."""
        log = Path(self.lab.path("src"), "_delta_log")
        checkpoints = [int(file.name[:20]) for file in log.glob("*.checkpoint*.parquet")]
        for file in log.glob("*.json"):
            if checkpoints and file.stem.isdigit() and int(file.stem) < max(checkpoints):
                self.may_have_lost, self.is_kept = True, False
                file.unlink()

    def _shrink_the_retention(self, _: int) -> None:
        self.is_kept = False
        self._sql(
            "ALTER TABLE {src} SET TBLPROPERTIES"
            " ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')"
        )

    def _maintain(self, _: int) -> None:
        found = self.engine.maintain_streams()
        assert not any(source.problem for source in found.sources)
        is_extended = any(source.extension for source in found.sources)
        self.is_kept = is_extended and not self.may_have_lost

    def _probe(self, _: int) -> None:
        try:
            found = self.engine.stream_has_data("s")
        except StreamStale:
            assert not self.is_kept
        else:
            assert found == (self.rows != self.seen)

    def _nothing(self, _: int) -> None:
        pass

    def _jump(self, number: int) -> None:
        self.ahead += timedelta(days=number)

    def _consume(self, _: int) -> None:
        try:
            self.lab.consume(MERGE_INTO_COPY, engine=self.engine)
        except StreamStale:
            assert not self.is_kept
            event("stale")
            self.engine.create_stream("s", on_table=self.lab.path("src"), or_replace=True)
            self._sql("DELETE FROM {copy}", "INSERT INTO {copy} SELECT * FROM {src}")
        self.seen = dict(self.rows)
        # The owner's own retention is zero: it does not keep the files of later writes.
        self.may_have_lost, self.is_kept = False, False
        assert dict(self.lab.rows("copy")) == self.rows

    def check(self) -> None:
        """Check that the change set leads from the consumed rows to the current rows."""
        wanted: list[tuple[Any, ...]] = []
        for id_ in self.seen.keys() | self.rows.keys():
            old, new = self.seen.get(id_), self.rows.get(id_)
            if old == new:
                continue
            is_update = old is not None and new is not None
            if old is not None:
                wanted.append((id_, old, "DELETE", is_update))
            if new is not None:
                wanted.append((id_, new, "INSERT", is_update))
        rows = self.engine.read_stream("s").collect()
        assert sorted(tuple(row)[:4] for row in rows) == sorted(wanted)

    def _sql(self, *statements: str) -> None:
        self.lab.sql(*statements)


@pytest.mark.thorough
@examples(1)
@given(steps=STEPS, has_vectors=st.booleans())
def test_stream_is_exact_or_stale_after_any_loss_of_history(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, int, str]],
    has_vectors: bool,
) -> None:
    note(f"{has_vectors}: {steps}")
    lab = StreamLab(spark, tmp_path_factory.mktemp("stale"))
    lab.make(
        "src",
        "id INT, v INT",
        properties="'delta.enableRowTracking' = 'true', 'delta.checkpointInterval' = '3',"
        f" 'delta.enableDeletionVectors' = '{has_vectors}',"
        " 'delta.deletedFileRetentionDuration' = 'interval 0 seconds'",
    )
    lab.make("copy", "id INT, v INT")
    world = World(lab)
    world.engine.create_stream("s", on_table=lab.path("src"))
    world.engine.maintain_streams()
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        world.do("insert", 2)
        world.do("consume", 0)
        for write, number, event_name in steps:
            world.do(write, number)
            world.do(event_name, number)
            try:
                world.check()
            except StreamStale:
                assert not world.is_kept, (write, number, event_name)
                event("cannot be read")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
