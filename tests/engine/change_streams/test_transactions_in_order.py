"""The recipe of the docs for whole transactions: buffer up to the earliest heartbeat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from change_stream_lab import ChangeStreamLab, moment
from pyspark.sql import DataFrame, Row

from airflow_provider_cdc.engine import Watch

PAGE = Path(__file__).parents[3] / "docs/how-to/read-change-streams.md"
RECIPE = re.compile(r"^## Whole transactions in order\n.*?^```python\n(.*?)^```", re.M | re.S)


@dataclass
class BusyEngine:
    """An engine whose change stream is written and advanced before some of its queries."""

    lab: ChangeStreamLab
    busy: Callable[[int], None]
    queries: int = 0

    def read_change_stream(self, *arguments: Any, **given: Any) -> DataFrame:
        self.queries += 1
        self.busy(self.queries)
        return self.lab.engine.read_change_stream(*arguments, **given)


def recipe() -> Any:
    found = RECIPE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    return names["Transactions"]


def transactions(rows: list[Row]) -> Iterator[list[Row]]:
    for _, group in groupby(rows, lambda row: (moment(row), row.server_transaction_id)):
        yield list(group)


@pytest.mark.parametrize("churn", [False, True], ids=["open", "churned"])
def test_recipe_returns_whole_transactions_in_order(lab: ChangeStreamLab, churn: bool) -> None:
    start = lab.create({"src": Watch(["id"])}, partitions=2).created

    def write() -> None:
        lab.sql("INSERT INTO {src} SELECT max(id) + 1, 'x', 0 FROM {src}")
        lab.sql("UPDATE {src} SET n = n + 1")

    def busy(query: int) -> None:
        # One partition is read before these commits are captured, and the next one after.
        if query in (3, 6):
            write()
            if churn and query == 3:
                lab.engine.merge_partitions("cs", lab.tokens(lab.now()))
            elif churn:
                lab.engine.split_partition("cs", lab.tokens(lab.now())[0])
            lab.advance()

    lab.sql("INSERT INTO {src} SELECT CAST(id AS INT), 'x', id FROM range(10, 20)")
    lab.advance()
    found = recipe()(BusyEngine(lab, busy), "cs", start)

    first = list(found.next())

    # The other partition has the rest of the later transactions.
    assert first == list(transactions(lab.records()))[: len(first)]
    assert found.buffer
    rest = [each for _ in range(3) for each in found.next()]
    assert [*first, *rest] == list(transactions(lab.records()))
    assert not found.buffer
