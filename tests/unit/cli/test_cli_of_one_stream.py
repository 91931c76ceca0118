"""The commands for one stream: its history, its advance and its drop, and the watch of all."""

from __future__ import annotations

import json
import time
from getpass import getuser
from pathlib import Path

import pytest
from streams import add_file, quiet_stream
from typer.testing import CliRunner

from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.cli.text_tables import WIDTH
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.clock import utc_now


@pytest.fixture
def catalog(state: str, tmp_path: Path) -> StreamCatalog:
    quiet_stream(Path(state), tmp_path / "t", "orders", utc_now())
    add_file(tmp_path / "t", 1, utc_now())
    return StreamCatalog(state, principal="somebody")


def run(state: str, *arguments: str, answer: str | None = None) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, [*arguments, "--state", state], input=answer)
    return found.exit_code, found.stdout, found.stderr


def test_history_shows_who_moved_a_stream(catalog: StreamCatalog, state: str) -> None:
    catalog.advance_stream("orders")
    code, printed, _ = run(state, "history", "orders", "-o", "json")
    lines = json.loads(printed)
    assert code == 0
    assert [(line["transition"], line["actor"], line["versions"]) for line in lines] == [
        ("advanced", "somebody", [1]),
        ("created", "tests", [0]),
    ]
    _, printed, _ = run(state, "history", "orders")
    assert "advanced" in printed
    assert max(map(len, printed.splitlines())) <= WIDTH


def test_describe_shows_the_same_as_streams_with_a_name(catalog: StreamCatalog, state: str) -> None:
    named, described = run(state, "streams", "orders"), run(state, "describe", "orders")
    assert described == named
    assert "lake.orders" in described[1]


def test_explain_shows_what_would_be_read(catalog: StreamCatalog, state: str) -> None:
    code, printed, _ = run(state, "explain", "orders", "-o", "json")
    assert code == 0
    assert json.loads(printed) == [
        {
            "table": "lake.orders",
            "strategy": "file_difference",
            "files": 1,
            "bytes": 1,
            "commits": 1,
            "reason": "no commit has change files",
        }
    ]
    _, printed, _ = run(state, "explain", "orders")
    assert "file difference" in printed


def test_advance_asks_and_then_moves_the_stream(catalog: StreamCatalog, state: str) -> None:
    command = ("advance", "orders", "--principal", "somebody")
    code, _, _ = run(state, *command, answer="n\n")
    assert code == 1
    assert catalog.get_stream("orders").offset.version == 0
    code, printed, _ = run(state, *command, "--yes")
    assert code == 0
    assert json.loads(printed) == {"stream": "orders", "did": "advance", "from": [0], "to": [1]}
    assert catalog.get_stream("orders").offset.version == 1


def test_drop_removes_the_stream_for_its_owner_only(catalog: StreamCatalog, state: str) -> None:
    # Without a list of readers, every principal may drop it.
    catalog.alter_stream("orders", readers=["reader"])
    code, _, error = run(state, "drop", "orders", "--yes", "--principal", "stranger")
    assert code == 1
    assert "stranger" in error
    code, _, _ = run(state, "drop", "orders", "--yes", "--principal", "somebody")
    assert code == 0
    assert catalog.list_streams() == []


def test_alter_changes_what_is_given_and_keeps_the_rest(catalog: StreamCatalog, state: str) -> None:
    given = ("--comment", "nightly", "--max-lag", "PT10M", "--readers", "ada", "--readers", "bob")
    me = ("--principal", "somebody")
    code, printed, _ = run(state, "alter", "orders", *given, *me)
    assert code == 0
    assert json.loads(printed) == {
        "stream": "orders",
        "did": "alter",
        "comment": "nightly",
        "max_lag": "PT10M",
        "readers": ["ada", "bob"],
    }
    run(state, "alter", "orders", "--without", "max-lag", "--consumers", "", *me)
    stream = catalog.get_stream("orders")
    assert (stream.comment, stream.max_lag) == ("nightly", None)
    assert (stream.readers, stream.consumers) == (("ada", "bob"), ())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("alter", "orders"), "stream orders: is not altered"),
        (("alter", "orders", "--without", "owner"), "--without owner: cannot be used"),
        (("alter", "orders", "--without", "comment", "--comment", "x"), "--without comment: "),
        (("alter", "orders", "--max-lag", "soon"), "max_lag"),
        (("read", "orders", "--limit", "0"), "limit 0 of type int: is not a number of rows"),
        (("read", "orders", "--limit", "1001"), "expected a whole number from 1 to 1,000"),
        (("rewind", "orders", "--to", "3", "--yes"), "write --to version=3"),
        (("rewind", "orders", "--to", "version=x", "--yes"), "version 'x': is not a version"),
        (("create", "s", "--on-table", "t", "--at", "monday"), "--at monday: is not a point"),
        (("create", "s", "--on-table", "t", "--mode", "odd"), "stream s: "),
        (("create", "s", "--on-files", "/f", "--file-options", "[1]"), "--file-options: cannot"),
    ],
)
def test_wrong_option_of_an_act_ends_with_one_line(
    catalog: StreamCatalog, state: str, arguments: tuple[str, ...], problem: str
) -> None:
    code, printed, error = run(state, *arguments)
    assert (code, printed) == (1, "")
    assert problem in error
    assert len(error.splitlines()) == 1


def test_create_without_java_says_what_is_missing(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/missing")
    code, _, error = run(state, "create", "s", "--on-table", "t")
    assert code == 1
    assert "needs Java 17, found none" in error


@pytest.mark.parametrize("every", ["0.1", "nan", "inf", "soon"])
def test_watch_names_the_times_that_it_accepts(state: str, every: str) -> None:
    code, _, error = run(state, "watch", "--every", every)
    assert code == 2
    assert "expected 0.5 to 86400 seconds" in " ".join(error.replace("│", " ").split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("history",),
        ("explain",),
        ("advance", "--yes"),
        ("drop", "--yes"),
        ("alter", "--comment=c"),
        ("read",),
        ("rewind", "--to=version=1", "--yes"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_command_for_a_missing_stream_says_so(
    catalog: StreamCatalog, state: str, arguments: tuple[str, ...]
) -> None:
    command, *options = arguments
    code, _, error = run(state, command, "order", *options)
    assert code == 1
    assert "stream order: does not exist" in error
    assert getuser() not in error


def test_watch_refreshes_until_it_is_interrupted(
    catalog: StreamCatalog, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            catalog.rename_stream("orders", "renamed")
            return
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    code, printed, _ = run(state, "watch", "--every", "2")
    assert code == 0
    assert waits == [2, 2]
    assert "renamed" in printed
