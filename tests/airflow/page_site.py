"""Streams in each condition on tables without Spark, in the state folder of ``cdc_page``."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from streams import add_file, new_stream, offset_at, register

from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.status_snapshots import StatusSnapshots

HOSTILE = "<img src=x onerror=alert(1)>"
CONSUMER = "cdc_page_consumer/advance"
HOUR = timedelta(hours=1)


class PageSite:
    """A stream for each condition that a log alone can show.

    :param root: the folder of the tables and of the state folder
    """

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / "state"
        self.add("late", HOSTILE, has_data=True, max_lag=timedelta(minutes=1))
        self.add("waiting", has_data=True)
        self.add("current")
        self.add("at_risk", has_data=True, age=6.5 * timedelta(days=1))
        self.add("broken")
        (self.root / "broken/_delta_log" / f"{0:020d}.json").unlink()

    def add(
        self,
        name: str,
        table: str | None = None,
        *,
        has_data: bool = False,
        age: timedelta = HOUR,
        **fields: Any,
    ) -> None:
        """Register a stream whose table was made ``age`` ago."""
        location, moment = self.root / name, utc_now() - age
        add_file(location, 0, moment, data_change=False)
        offset = replace(offset_at(location, 0), timestamp=moment)
        if has_data:
            add_file(location, 1, moment, 10)
        stream = new_stream(
            name,
            source=Source(table or f"lake.{name}", str(location), "a-table-id"),
            offset=offset,
            created_at=moment,
            last_consumer=CONSUMER,
            last_consumed_at=moment,
            # Without an extension a stream goes stale after the retention of its source.
            **{"max_data_extension": timedelta(0)} | fields,
        )
        register(self.state, stream)

    def check(self) -> None:
        """Run the monitor."""
        StreamMonitor(str(self.state)).run({"log": print}, margin=timedelta(days=1))

    @property
    def snapshots(self) -> StatusSnapshots:
        return StatusSnapshots(str(self.state), Files())
