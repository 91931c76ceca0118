"""How a notebook shows the objects that the engine returns: in one short line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, get_args, get_type_hints

import pytest
from streams import NOON, new_offset, new_stream

from airflow_provider_cdc.engine import Engine, StreamCatalog, Transaction
from airflow_provider_cdc.engine.catalog.change_stream_status import ChangeStreamStatus
from airflow_provider_cdc.engine.catalog.stream_status import BaseStatus, StreamStatus
from airflow_provider_cdc.engine.catalog.upsert_status import UpsertTableStatus, UpsertTableSummary
from airflow_provider_cdc.engine.core.archives.archive_outcome import ArchiveOutcome
from airflow_provider_cdc.engine.core.change_sets.read_plan import ReadPlan, Strategy
from airflow_provider_cdc.engine.core.change_streams.definition import CaptureSettings, ChangeStream
from airflow_provider_cdc.engine.core.change_streams.layout import Layout as Partitions
from airflow_provider_cdc.engine.core.delta.columns import Column
from airflow_provider_cdc.engine.core.model.consumption import (
    Consumption,
    PlannedStatement,
    StatementKind,
    StreamRange,
    TableRange,
)
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
)
from airflow_provider_cdc.engine.core.model.serialization import UnreadableStream
from airflow_provider_cdc.engine.core.model.sources import Base, FileFormat, Folder, Source, View
from airflow_provider_cdc.engine.core.model.stream import Phase, Stream
from airflow_provider_cdc.engine.core.names import TableName
from airflow_provider_cdc.engine.core.retention.table_retention import Maintenance, SourceRetention
from airflow_provider_cdc.engine.core.upserts.definition import UpsertTable
from airflow_provider_cdc.engine.core.verification.proof import VerificationState
from airflow_provider_cdc.engine.core.verification.verification import Verification
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Record

MOST_CHARACTERS = 200
METADATA = {"configuration": {}, "schemaString": "x" * 2_000}
OFFSET = replace(new_offset(4, METADATA), timestamp=NOON)
CUSTOMERS = Source("delta.`/lake/customers`", "/lake/customers", "an id")
STREAM = new_stream("customer_changes", source=CUSTOMERS, offset=OFFSET)
CONSUMPTION = Consumption(
    "3b85",
    "dag.task",
    (StreamRange("an id", "customer_changes", (TableRange(4, OFFSET),)),),
    (PlannedStatement(0, StatementKind.MERGE, "f" * 64, "`t`", "/t", 1, rewritten_as="M" * 900),),
    NOON,
)
APPLYING = replace(STREAM, phase=Phase.APPLYING, consumption=CONSUMPTION)
STATEMENT = StatementOutcome(
    0, "`lake`.`copy`", StatementResult.ALREADY_APPLIED, 8, {f"metric{n}": n for n in range(40)}
)
CONSUMED = StreamOutcome("an id", "customer_changes", 4, 21, "nothing", {"inserted": 12_000})
BASE = BaseStatus(
    table="delta.`/lake/customers`",
    location="/lake/customers",
    offset_version=4,
    latest_version=21,
    versions_behind=17,
    commits_behind=14,
    bytes_behind=3_200_000,
    rows_waiting=None,
    may_have_data=True,
    has_data=None,
    stale_after=NOON,
    kept_until=NOON,
    behind_since=NOON,
    complete_through=NOON,
    invalid_reason=None,
)
STALE = (
    "stream s: is stale, its source is missing. Cause: expected a table, found none. Fix: drop it."
)
STATUS = StreamStatus(
    name="customer_changes",
    stream_id="an id",
    table_on="delta.`/lake/customers`",
    mode=STREAM.mode,
    append_semantics=STREAM.append_semantics,
    phase=Phase.IDLE,
    owner="me",
    comment=None,
    created_at=NOON,
    last_consumed_at=None,
    last_consumer=None,
    base_tables=(BASE,),
    offset_version=4,
    latest_version=21,
    versions_behind=17,
    commits_behind=14,
    bytes_behind=3_200_000,
    rows_waiting=None,
    may_have_data=True,
    has_data=None,
    stale_after=NOON,
    kept_until=NOON,
    stale=False,
    invalid_reason=None,
)
FAR = SourceRetention("/lake/t", timedelta(7), timedelta(14), ("a", "b"), 5_000, has_changed=True)
NEAR = SourceRetention("/lake/u", timedelta(7), None, (), 0, has_changed=False)
TABLE = UpsertTable(
    "people",
    TableName(("people__base",)),
    "/lake/people",
    "an id",
    tuple(Column(f"c{number}", "string") for number in range(2_000)),
    ("c0", "c1"),
)
UPSERTS = UpsertTableStatus(
    "people", "/lake/people", ("id",), None, "", NOON, NOON, 3, 5_000, 1, NOON, 1, "upserts_x"
)
SUMMARY = UpsertTableSummary(
    "people", "/lake/people", None, NOON, None, None, None, None, STALE, "upserts_x"
)
COMMITTED = Record(APPLYING, Transition.COMMITTED, NOON, "a nonce", "dag.task")

SHOWN: list[tuple[Any, str]] = [
    (STREAM, "<Stream customer_changes on /lake/customers at version 4, idle>"),
    (APPLYING, "customer_changes on /lake/customers at version 4, applying by dag.task>"),
    (replace(STREAM, shows_initial_rows=True), "at version 4, initial rows wait, idle>"),
    (
        replace(STREAM, bases=STREAM.bases * 2, view=View("`lake`.`v`", "f" * 64, (0, 1))),
        "on lake.v at versions 4, 4, idle>",
    ),
    (OFFSET, "<Offset version 4 of 2026-01-01 12:00:00 UTC>"),
    (Base(CUSTOMERS, OFFSET), "version 4"),
    (
        Folder("/in", FileFormat.CSV, {}, "x" * 2_000, "*.csv"),
        "<Folder /in, csv files, names like *.csv>",
    ),
    (CONSUMPTION, "3b85 of customer_changes by dag.task, 1 statement, begun 2026-01-01"),
    (STATEMENT, "<StatementOutcome 1 on lake.copy: already applied in version 8>"),
    (CONSUMED, "customer_changes after version 4 through 21: 12,000 inserted>"),
    (
        Outcome("3b85", "dag.task", (CONSUMED,), (STATEMENT,), 2.04),
        "<Outcome dag.task consumed customer_changes through version 21 (12,000 inserted) into"
        " lake.copy in 2.0 s>",
    ),
    (Outcome("3b85", "me", (), (), 0.0), "<Outcome me consumed nothing in 0.0 s>"),
    (
        ReadPlan(Strategy.FILE_DIFFERENCE, 2, 3_200_000, 14, "it reads the fewest bytes"),
        "<ReadPlan file difference: 3.2 MB in 2 files, 14 commits, it reads the fewest bytes>",
    ),
    (BASE, "<BaseStatus /lake/customers at version 4, 14 commits behind (3.2 MB)>"),
    (
        STATUS,
        "<StreamStatus customer_changes on /lake/customers at version 4, idle, 14 commits behind"
        " (3.2 MB), stale after 2026-01-01 12:00:00 UTC>",
    ),
    (replace(STATUS, may_have_data=False), "nothing waits, stale after"),
    (replace(STATUS, invalid_reason=STALE), "stream s: is stale, its source is missing>"),
    (COMMITTED, "<Record committed 2026-01-01 12:00:00 UTC by dag.task: Stream customer_changes"),
    (FAR, "<SourceRetention /lake/t: extended to 2 weeks for a, b, changed>"),
    (NEAR, "<SourceRetention /lake/u: keeps enough by itself>"),
    (
        Maintenance(("s",), (FAR, NEAR)),
        "<Maintenance of 2 sources: 1 extended (5.0 kB kept), 0 with a problem, 1 empty stream"
        " moved on>",
    ),
    (TABLE, "<UpsertTable people by c0, c1: c0, c1, c2, c3, c4, ... (2,000 columns)>"),
    (
        UPSERTS,
        "people, applied up to 2026-01-01 12:00:00 UTC, 3 commits waiting (5.0 kB), 2 changes in"
        " quarantine>",
    ),
    (
        UnreadableStream("an id", "s", 3, "a newer version of this package wrote it"),
        "stream s cannot be read: a newer version of this package wrote it",
    ),
    (
        ArchiveOutcome("`lake`.`log`", "t", "s", 3, 21, NOON, (), True),
        "<ArchiveOutcome lake.log through version 21: 0 changes, more is waiting>",
    ),
    (
        Verification("s", "`lake`.`copy`", 21, 20, False, 7, (), True, 5_000, 3_200_000, 0.5),
        "<Verification lake.copy: differs from its source in 7 keys at version 21; 5.0 kB of"
        " 3.2 MB read>",
    ),
    (
        VerificationState("an id", "/lake/copy", None, 21, NOON, 21, 0),
        "<VerificationState /lake/copy: equal at version 21>",
    ),
    (
        ChangeStream(
            stream_id="an id",
            name="cs",
            owner="me",
            secret="00",
            created_at=0,
            settings=CaptureSettings(),
            tables=(),
            steps=Partitions.created("change stream cs", 0, 3).steps,
            through=1_767_268_800_000_000,
        ),
        "<ChangeStream cs on no tables, 3 partitions, captured through 2026-01-01T12:00:00Z>",
    ),
    (
        ChangeStreamStatus("cs", ("t",), 2, NOON, timedelta(0), 1, 0, ()),
        "<ChangeStreamStatus cs, 2 partitions, captured through 2026-01-01 12:00:00 UTC, 1 commit"
        " waiting, 0 consumers>",
    ),
    (SUMMARY, "people, applied up to 2026-01-01 12:00:00 UTC, the waiting changes are unknown>"),
]


@pytest.mark.parametrize(("thing", "line"), SHOWN, ids=lambda item: type(item).__name__)
def test_thing_is_shown_as_one_short_line(thing: Any, line: str) -> None:
    shown = repr(thing)

    assert line in shown
    assert len(shown) <= MOST_CHARACTERS
    assert str(thing) == shown


def test_name_that_names_no_table_is_shown_as_it_is() -> None:
    odd = replace(STREAM, bases=(Base(replace(CUSTOMERS, name="a..b"), OFFSET),))

    assert "on a..b at version 4" in repr(odd)


def returned(kind: Any) -> Iterator[type]:
    """The dataclasses in the return type of a method."""
    for each in get_args(kind):
        yield from returned(each)
    if is_dataclass(kind):
        yield kind if isinstance(kind, type) else type(kind)


def test_every_object_that_a_notebook_gets_is_shown_briefly() -> None:
    found: set[type] = set()
    for owner in (Engine, StreamCatalog, Transaction):
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("_"):
                hints = get_type_hints(method, localns={"Self": owner})
                found.update(returned(hints.get("return")))

    assert {Stream, Outcome, ReadPlan, StreamStatus, Record, Maintenance} <= found
    # The other ones have only a few numbers and names.
    for kind in found - {type(thing) for thing, _ in SHOWN}:
        assert len(fields(kind)) <= 6, kind
