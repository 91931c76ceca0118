"""What a job answers for the lineage of its task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from streams import NOON, new_offset, new_stream

from airflow_provider_cdc.engine import StreamCatalog
from airflow_provider_cdc.engine.core.archives.archive_outcome import ArchiveOutcome
from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
)
from airflow_provider_cdc.engine.core.model.sources import FileFormat, Folder, View
from airflow_provider_cdc.jobs.lineage import with_lineage
from airflow_provider_cdc.jobs.model import (
    Answer,
    ConsumeStream,
    ConsumptionResult,
    JobError,
    Lineage,
    Request,
)

SCHEMA = json.dumps({"fields": [{"name": "Id", "type": "long"}, {"name": "v", "type": "long"}]})
OFFSET = new_offset(5, {"schemaString": SCHEMA, "id": "a-table-id"})
FOLDER = Folder("/in", FileFormat.CSV, {}, "{}")
STREAMS = [
    new_stream("s", offset=OFFSET),
    new_stream("other", offset=OFFSET),
    new_stream("of_view", offset=OFFSET, view=View("v", "f", (0,))),
    new_stream("of_files", offset=OFFSET, folder=FOLDER),
]


def outcome(*streams: str, target: str = "/data/t") -> Outcome:
    taken = tuple(
        StreamOutcome(f"id of {name}", name, 0, 1, "file_difference", {}) for name in streams
    )
    statement = StatementOutcome(0, "t", StatementResult.APPLIED, 3, location=target)
    return Outcome("c", "consumer", taken, (statement,), 1.0)


class Spark:
    """A session whose tables have the columns ``id`` and ``n``, if there is a table."""

    @property
    def read(self) -> Spark:
        return self

    def format(self, _: str) -> Spark:
        return self

    def load(self, location: str) -> SimpleNamespace:
        if location == "/data/removed":
            raise RuntimeError("DELTA_TABLE_NOT_FOUND")
        return SimpleNamespace(columns=["id", "n"])


def answered(monkeypatch: pytest.MonkeyPatch, *, wanted: bool = True, **answer: Any) -> Answer:
    def streams(_: object) -> Sequence[object]:
        return STREAMS

    monkeypatch.setattr(StreamCatalog, "list_streams", streams)
    request = Request("r", "/state", ConsumeStream((), "c"), "somebody", wants_lineage=wanted)
    spark: Any = Spark()
    return with_lineage(request, Answer("r", **answer), spark, {})


def test_answer_has_the_columns_of_streams_on_tables_and_of_targets(monkeypatch) -> None:
    found = answered(monkeypatch, outcome=outcome("s", "of_view", "of_files"))
    assert found.lineage == Lineage({"s": ("Id", "v")}, {"/data/t": ("id", "n")})


def test_each_of_several_consumptions_has_its_own_columns(monkeypatch) -> None:
    results = (
        ConsumptionResult("a", ("s",), outcome("s")),
        ConsumptionResult("b", ("other",), outcome("other", target="/data/u")),
        ConsumptionResult("c", ("of_view",), error=JobError("kind", "message", True)),
    )
    found = answered(monkeypatch, consumptions=results)
    assert [each.lineage for each in found.consumptions] == [
        Lineage({"s": ("Id", "v")}, {"/data/t": ("id", "n")}),
        Lineage({"other": ("Id", "v")}, {"/data/u": ("id", "n")}),
        None,
    ]
    assert found.lineage is None


def test_batches_of_an_archive_have_their_columns_together(monkeypatch) -> None:
    batches = (outcome("s"), outcome("s"))
    archived = ArchiveOutcome("a", "t", "s", 0, 1, NOON, batches, has_more=False)
    found = answered(monkeypatch, archived=archived)
    assert found.lineage == Lineage({"s": ("Id", "v")}, {"/data/t": ("id", "n")})


@pytest.mark.parametrize(
    "given",
    [
        {"outcome": outcome("s"), "wanted": False},
        {"outcome": outcome("s", target="/data/removed")},
        {"error": JobError("kind", "message", True)},
        {"has_data": True},
    ],
)
def test_answer_stays_as_it_is_without_a_wish_or_after_an_error(monkeypatch, given) -> None:
    found = answered(monkeypatch, **given)
    given.pop("wanted", None)
    assert found == Answer("r", **given)
