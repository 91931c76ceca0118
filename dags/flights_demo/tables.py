"""The demo's tables: their locations, their columns, and their names in SQL."""

from __future__ import annotations

from dataclasses import dataclass

FLIGHT_COLUMNS = {
    "flight_id": "STRING",
    "flight_date": "DATE",
    "carrier": "STRING",
    "flight": "INT",
    "tailnum": "STRING",
    "origin": "STRING",
    "dest": "STRING",
    "sched_dep_time": "INT",
    "sched_arr_time": "INT",
    "distance": "INT",
    "status": "STRING",
    "dep_time": "INT",
    "dep_delay": "INT",
    "arr_time": "INT",
    "arr_delay": "INT",
    "air_time": "INT",
}

PUNCTUALITY_COUNTS = {
    "flights": "1",
    "departed": "IF(status IN ('departed', 'arrived'), 1, 0)",
    "arrived": "IF(status = 'arrived', 1, 0)",
    "on_time": "IF(status = 'arrived' AND arr_delay <= 15, 1, 0)",
    "total_dep_delay": "COALESCE(dep_delay, 0)",
    "total_arr_delay": "COALESCE(arr_delay, 0)",
}
"""What each flight adds to its carrier's row; all are whole numbers, so that sums are exact."""

WATCHED_COLUMNS = ("origin", "status", "dep_delay")
"""What the change stream watches beside the key of a flight."""

MOVEMENT_COLUMNS = {
    "transaction": "STRING",
    "flight_id": "STRING",
    "kind": "STRING",
    **{name: FLIGHT_COLUMNS[name] for name in WATCHED_COLUMNS},
}
"""What is kept of each change of a flight, with the values after it; before it, if it is a DELETE.
"""


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The folder that holds the demo's tables, named by a path or URI."""

    root: str

    @property
    def files(self) -> str:
        """The folder of the files of the data set."""
        return f"{self.root}/files"

    @property
    def flights(self) -> str:
        """The source: one row for each flight that was not cancelled."""
        return f"{self.root}/flights"

    @property
    def airlines(self) -> str:
        """The names of the carriers."""
        return f"{self.root}/airlines"

    @property
    def current_flights(self) -> str:
        """Target: the source's live rows with their current values."""
        return f"{self.root}/current_flights"

    @property
    def flight_board(self) -> str:
        """Upsert table: the source's live rows, from the changes that the replay writes to it."""
        return f"{self.root}/flight_board"

    @property
    def flights_archive(self) -> str:
        """Archive: every change of the source."""
        return f"{self.root}/flights_archive"

    @property
    def movements(self) -> str:
        """Target: each change of a flight with its airport, from the readers of partitions."""
        return f"{self.root}/movements"

    @property
    def aircraft_history(self) -> str:
        """History target: which carrier flew each aircraft, from when to when."""
        return f"{self.root}/aircraft_history"

    @property
    def carrier_punctuality(self) -> str:
        """Target: one row of counts and sums for each carrier."""
        return f"{self.root}/carrier_punctuality"


def quoted(name: str) -> str:
    """``name`` as an SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def delta(path: str) -> str:
    """The SQL name of the Delta table at ``path``."""
    return f"delta.{quoted(path)}"
