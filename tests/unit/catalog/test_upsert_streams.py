"""Which stream holds the changes of an upsert table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from streams import NOON, new_stream

from airflow_provider_cdc.engine.catalog.upsert_jobs import apply_schedules, upsert_stream
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.apply_times import ApplyTimes

OLD = new_stream(
    "old", upsert_table="t", source=Source("changes", "/lake/t/_cdc/changes", "an old id")
)
NEW = new_stream(
    "new",
    upsert_table="t",
    source=Source("changes", "/lake/t/_cdc/changes", "a new id"),
    created_at=NOON + timedelta(days=1),
)
PLAIN = new_stream("plain", source=Source("changes", "/lake/t/_cdc/changes", "a new id"))


@pytest.mark.parametrize("streams", [[OLD, NEW, PLAIN], [PLAIN, NEW, OLD]], ids=["first", "last"])
def test_table_recreated_outside_the_engine_has_its_newest_stream(
    streams: list[Stream], tmp_path: Path
) -> None:
    times = ApplyTimes(str(tmp_path), Files({}), lambda: NOON)

    assert upsert_stream(streams, "/lake/t") is NEW
    assert [schedule.stream for schedule in apply_schedules(streams, times)] == ["new"]


def test_upsert_stream_of_an_unknown_table_is_not_found() -> None:
    assert upsert_stream([NEW, PLAIN], "/lake/other") is None
