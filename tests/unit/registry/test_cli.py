"""What ``python -m airflow_provider_cdc streams`` prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streams import new_stream
from typer.testing import CliRunner

from airflow_provider_cdc.cli.lines import OVERVIEW
from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.engine.core.lifecycle import Transition
from airflow_provider_cdc.engine.storage.registry import Registry
from airflow_provider_cdc.engine.storage.registry_snapshot import Change


def create(registry: Registry, name: str) -> None:
    change = Change(new_stream(name), Transition.CREATED)
    registry.transact(registry.snapshot(), [change], actor="creator")


def run(*arguments: str, state: str | None = None) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["streams", *arguments], env={"CDC_STATE": state})
    return found.exit_code, found.stdout, found.stderr


def test_streams_as_json_are_all_streams_with_every_column(registry: Registry, state: str) -> None:
    for name in ("b", "a"):
        create(registry, name)
    code, printed, _ = run("--output", "json", state=state)
    lines = json.loads(printed)
    assert (code, [line["name"] for line in lines]) == (0, ["a", "b"])
    assert lines[0]["created_on"] == "2026-01-01T12:00:00+00:00"
    assert (lines[0]["stale"], "is gone" in lines[0]["invalid_reason"]) == (True, True)
    assert set(OVERVIEW) < set(lines[0])


def test_streams_in_a_table_show_where_each_stands(registry: Registry, state: str) -> None:
    create(registry, "orders")
    code, printed, _ = run("--state", state)
    assert code == 0
    assert all(column in printed for column in OVERVIEW)
    assert "orders" in printed


def test_stream_by_name_is_described_column_by_column(registry: Registry, state: str) -> None:
    create(registry, "orders")
    create(registry, "other")
    code, printed, _ = run("ORDERS", state=state)
    described = dict(line.split(maxsplit=1) for line in printed.splitlines() if " " in line)
    assert (code, described["name"], described["owner"]) == (0, "orders", "somebody")
    assert "other" not in printed


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(("nothing",), "does not exist"), (("--state", "relative"), "absolute path")],
)
def test_streams_that_cannot_be_shown_are_one_line_on_standard_error(
    registry: Registry, state: str, arguments: tuple[str, ...], problem: str
) -> None:
    create(registry, "s")
    code, printed, said = run(*arguments, state=state)
    assert (code, printed) == (1, "")
    assert problem in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("command", ["streams", "upsert-tables"])
@pytest.mark.parametrize("output", ["table", "json"])
def test_folder_without_a_registry_is_told_from_one_without_streams(
    tmp_path: Path, command: str, output: str
) -> None:
    found = CliRunner().invoke(app, [command, "--state", str(tmp_path), "--output", output])

    assert found.exit_code == 0
    assert found.stderr.startswith(f"There is no registry in {tmp_path}")
    assert output == "table" or json.loads(found.stdout) == []


def test_errors_show_no_locals_which_may_hold_secrets() -> None:
    assert app.pretty_exceptions_show_locals is False


@pytest.mark.parametrize("command", ["streams", "upsert-tables", "usage"])
def test_help_speaks_of_nothing_that_users_do_not_have(command: str) -> None:
    found = CliRunner().invoke(app, [command, "--help"])

    assert found.exit_code == 0
    assert "Show " in found.stdout
    assert "seed" not in found.stdout.lower()
