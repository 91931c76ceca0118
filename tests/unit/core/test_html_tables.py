"""What notebooks show of outcomes and statuses."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from streams import NOON, new_stream

from airflow_provider_cdc.engine.catalog.show_streams import shown, shown_html
from airflow_provider_cdc.engine.catalog.stream_status import status_or_reason
from airflow_provider_cdc.engine.core.html_tables import html_fields, html_table
from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
)
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

HOSTILE = '<img src="x" onerror=alert(1)>'


def texts(html: str) -> list[str]:
    return [text for text in ElementTree.fromstring(f"<a>{html}</a>").itertext() if text]


def test_table_escapes_every_text() -> None:
    assert texts(html_table([HOSTILE], [[HOSTILE], [None]], HOSTILE)) == [HOSTILE] * 3
    assert texts(html_fields({HOSTILE: HOSTILE, "empty": None})) == [HOSTILE, HOSTILE]


def test_outcome_shows_its_streams_and_statements() -> None:
    rows = {"inserted": 2, "updated": 1, "deleted": 0}
    taken = StreamOutcome("1", "orders", 3, 5, "nothing", rows)
    statement = StatementOutcome(0, HOSTILE, StatementResult.ALREADY_APPLIED, 7)
    found = texts(Outcome("c", "dag/task", (taken,), (statement,), 1.25)._repr_html_())
    assert found[0] == "dag/task, 1.2 s"
    assert found[5:9] == ["orders", "3", "5", "2 inserted, 1 updated"]
    assert found[-3:] == [HOSTILE, "already applied", "7"]


def test_status_shows_what_an_operator_asks_first() -> None:
    status = status_or_reason(new_stream("orders"), SourceLog(Files(), lambda: NOON), NOON)
    found = texts(status._repr_html_())
    assert found[0] == "orders"
    assert "stale after" in found
    assert any("is missing" in text for text in found)


def test_streams_show_what_needs_attention_and_escape_every_text() -> None:
    source = SourceLog(Files(), lambda: NOON)
    status = status_or_reason(new_stream("orders"), source, NOON)
    hostile = replace(status, name=HOSTILE, table_on=HOSTILE, invalid_reason=HOSTILE)
    waiting = replace(status, invalid_reason=None, commits_behind=3, bytes_behind=2_000)

    found = texts(shown_html(map(shown, (hostile, waiting))))

    assert found[:2] == ["2 streams", "name"]
    assert found.count(HOSTILE) == 3
    assert "3 commits (2.0 kB)" in found
