"""The SQL of the demo's targets.

A standard stream returns an update as a DELETE of the old row and an INSERT of the new one.
"""

from __future__ import annotations

from .tables import (
    FLIGHT_COLUMNS,
    MOVEMENT_COLUMNS,
    PUNCTUALITY_COUNTS,
    WATCHED_COLUMNS,
    Warehouse,
    delta,
    quoted,
)

MOVEMENTS = "flight_movements"
"""The change stream on the flights."""

AIRCRAFT_FEED = "aircraft_feed"
"""The stream with every change of the flights."""

AIRCRAFT_SEQUENCE = ("flight_date", "sched_dep_time", "flight_id")
"""What orders the flights of an aircraft: their times, and not when they became known."""

OPERATORS_OF_AIRCRAFT = (
    f"SELECT tailnum, carrier, {', '.join(AIRCRAFT_SEQUENCE)} FROM {AIRCRAFT_FEED}"
    " WHERE _change_type IN ('insert', 'update_postimage') AND tailnum IS NOT NULL"
)
"""The carriers that flew each aircraft, as events."""


def consumption(stream: str, warehouse: Warehouse) -> list[str]:
    """The statements that bring both targets up to date with ``stream``."""
    return [merge_current_flights(stream, warehouse), merge_punctuality(stream, warehouse)]


def add_movements(warehouse: Warehouse) -> str:
    """Add the changes of one partition of the change stream."""
    values = "IF(mod_type = 'DELETE', old_values, new_values)"
    shown = {
        "transaction": "server_transaction_id",
        "flight_id": "get_json_object(keys, '$.flight_id')",
        "kind": "mod_type",
        **{name: f"get_json_object({values}, '$.{name}')" for name in WATCHED_COLUMNS},
    }
    columns = (f"CAST({shown[name]} AS {kind})" for name, kind in MOVEMENT_COLUMNS.items())
    return f"INSERT INTO {delta(warehouse.movements)} SELECT {', '.join(columns)} FROM mods"


def merge_current_flights(stream: str, warehouse: Warehouse) -> str:
    """Copy each changed flight; the pre-image of an update is left out."""
    columns = list(FLIGHT_COLUMNS)
    assignments = ", ".join(f"target.{name} = change.{name}" for name in columns[1:])
    return f"""\
MERGE INTO {delta(warehouse.current_flights)} AS target
USING (
  SELECT * FROM {quoted(stream)}
  WHERE NOT (`METADATA$ACTION` = 'DELETE' AND `METADATA$ISUPDATE`)
) AS change
ON target.flight_id = change.flight_id
WHEN MATCHED AND change.`METADATA$ACTION` = 'DELETE' THEN DELETE
WHEN MATCHED THEN UPDATE SET {assignments}
WHEN NOT MATCHED AND change.`METADATA$ACTION` = 'INSERT' THEN
  INSERT ({", ".join(columns)}) VALUES ({", ".join(f"change.{name}" for name in columns)})
"""


def merge_punctuality(stream: str, warehouse: Warehouse) -> str:
    """Add the counts of inserts and subtract those of deletes; applying it twice would count them
    twice.
    """
    counts = list(PUNCTUALITY_COUNTS)
    signed = ",\n    ".join(
        f"SUM(sign * {term}) AS {name}" for name, term in PUNCTUALITY_COUNTS.items()
    )
    assignments = ", ".join(f"target.{name} = target.{name} + delta.{name}" for name in counts)
    return f"""\
MERGE INTO {delta(warehouse.carrier_punctuality)} AS target
USING (
  SELECT
    change.carrier,
    FIRST(airline.name) AS name,
    {signed}
  FROM (
    SELECT *, IF(`METADATA$ACTION` = 'INSERT', 1, -1) AS sign FROM {quoted(stream)}
  ) AS change
  LEFT JOIN {delta(warehouse.airlines)} AS airline ON airline.carrier = change.carrier
  GROUP BY change.carrier
) AS delta
ON target.carrier = delta.carrier
WHEN MATCHED AND target.flights + delta.flights = 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET {assignments}
WHEN NOT MATCHED AND delta.flights <> 0 THEN
  INSERT (carrier, name, {", ".join(counts)})
  VALUES (delta.carrier, delta.name, {", ".join(f"delta.{name}" for name in counts)})
"""
