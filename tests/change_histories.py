"""Random histories of two tables with a change stream, and the records that they must have."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from change_stream_lab import ChangeStreamLab
from pyspark.sql import Row

from airflow_provider_cdc.engine import ALL, Watch

ROW_ID = "METADATA$ROW_ID"
# The columns of each table, and the expressions that make its rows of a number ``id``.
COLUMNS = {
    "a": {"id": "id", "v": "'a'", "n": "id"},
    "b": {"k": "'p'", "i": "CAST(id AS INT)", "v": "'a'", "n": "id"},
}
TYPES = {"a": "id BIGINT, v STRING, n BIGINT", "b": "k STRING, i INT, v STRING, n BIGINT"}
NUMBERS = {"a": "id", "b": "i"}
UNIQUE = {"a": ("id",), "b": ("k", "i")}

# A changed row: the kind of change, its key, new values and old values, as JSON.
Mod = tuple[str, str, str, str]


@dataclass(frozen=True)
class WatchedTable:
    """A table that random statements change. Its rows stay unique."""

    lab: ChangeStreamLab
    name: str
    watch: Watch

    def make(self, *, vectors: bool) -> None:
        rows = ", ".join(f"{each} AS {name}" for name, each in COLUMNS[self.name].items())
        self.lab.make(
            self.name,
            TYPES[self.name],
            f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {rows} FROM range(8)",
            properties="'delta.enableRowTracking' = 'true',"
            f" 'delta.enableDeletionVectors' = '{str(vectors).lower()}'",
        )

    def statement(self, chance: random.Random) -> str:
        """A random statement that changes the table."""
        low, number = 2 * chance.randrange(8), NUMBERS[self.name]
        where = f"{number} >= {low} AND {number} < {low + 2 * chance.randrange(1, 5)}"
        value = chance.choice(["'x'", "'y'", "'z'", "NULL"])
        made = COLUMNS[self.name] | {"v": value}
        rows = ", ".join(f"{each} AS {name}" for name, each in made.items())
        rows = f"SELECT {rows} FROM range({low}, {low + 6}, 1, 1)"
        same = " AND ".join(f"t.{name} = s.{name}" for name in UNIQUE[self.name])
        weights = {
            f"INSERT INTO {{t}} SELECT * FROM ({rows}) s LEFT ANTI JOIN {{t}} t ON {same}": 4,
            f"UPDATE {{t}} SET v = {value}, n = n + {chance.randrange(2)} WHERE {where}": 4,
            # Pairs of rows change places. Where one of them is missing, the other one moves.
            f"UPDATE {{t}} SET {number} = {number} ^ 1 WHERE {where}": 3,
            f"DELETE FROM {{t}} WHERE {where}": 2,
            f"MERGE INTO {{t}} t USING ({rows}) s ON {same}"
            f" WHEN MATCHED AND t.n % 3 = {chance.randrange(3)} THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET v = s.v, n = t.n + 1"
            " WHEN NOT MATCHED THEN INSERT *": 4,
            "OPTIMIZE {t}": 1,
        }
        found = chance.choices(list(weights), list(weights.values()))[0]
        return self.lab.text(found.replace("{t}", f"{{{self.name}}}"))

    def expected(self, after: int) -> list[Counter[Mod]]:
        """The changed rows of each commit after a version, by the change feed of the table."""
        rows = self.lab.engine.change_feed(
            self.lab.path(self.name), from_version=after + 1, row_ids=True
        )
        sides: dict[int, dict[str, list[Row | None]]] = defaultdict(dict)
        for row in rows.collect():
            key = as_json(row, self.watch.keys or [ROW_ID])
            is_new = row["_change_type"] in ("insert", "update_postimage")
            found = sides[row["_commit_version"]].setdefault(key, [None, None])
            assert found[is_new] is None
            found[is_new] = row
        commits = [
            Counter(mod for key, both in sides[version].items() if (mod := self._mod(key, *both)))
            for version in sorted(sides)
        ]
        return [commit for commit in commits if commit]

    def _mod(self, key: str, old: Row | None, new: Row | None) -> Mod | None:
        watched = COLUMNS[self.name] if self.watch.columns == ALL else self.watch.columns
        names = [name for name in watched if name not in self.watch.keys]
        if old is None or new is None:
            kind = "DELETE" if new is None else "INSERT"
            return (kind, key, as_json(new, names), as_json(old, names))
        names = [name for name in names if old[name] != new[name]]
        return ("UPDATE", key, as_json(new, names), as_json(old, names)) if names else None


def as_json(row: Row | None, names: Any) -> str:
    """Some values of a row as a record shows them."""
    return plain({} if row is None else {name: shown(row[name]) for name in names})


def plain(values: Mapping[str, Any] | str) -> str:
    """JSON in one spelling."""
    return json.dumps(json.loads(values) if isinstance(values, str) else values, sort_keys=True)


def shown(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value


def mods_of(record: Row) -> list[Mod]:
    """The changed rows of a data change record."""
    return [
        (record.mod_type, *(plain(mod[name]) for name in ("keys", "new_values", "old_values")))
        for mod in record.mods
    ]
