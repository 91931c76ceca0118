"""The output of ``python -m airflow_provider_cdc streams``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from partitions import new_change_stream
from streams import NOON, add_file, new_stream, quiet_stream
from typer.testing import CliRunner

from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.cli.text_tables import WIDTH
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.change_streams.consumer import ConsumerState
from airflow_provider_cdc.engine.core.change_streams.stamps import stamp_of
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change
from airflow_provider_cdc.engine.storage.state.change_stream_consumers import ChangeStreamConsumers
from airflow_provider_cdc.engine.storage.state.change_streams import ChangeStreams


def create(registry: Registry, name: str) -> None:
    change = Change(new_stream(name), Transition.CREATED)
    registry.transact(registry.snapshot(), [change], actor="creator")


def run(*arguments: str, state: str | None = None) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["streams", *arguments], env={"CDC_STATE": state})
    return found.exit_code, found.stdout, found.stderr


def test_streams_as_json_list_every_stream_with_every_column(
    registry: Registry, state: str
) -> None:
    for name in ("b", "a"):
        create(registry, name)
    code, printed, _ = run("--output", "json", state=state)
    lines = json.loads(printed)
    assert (code, [line["name"] for line in lines]) == (0, ["a", "b"])
    assert lines[0]["created_on"] == "2026-01-01T12:00:00+00:00"
    assert (lines[0]["stale"], "is missing" in lines[0]["invalid_reason"]) == (True, True)
    assert {"mode", "kept_until", "bytes_behind", "owner", "stale_after"} < set(lines[0])


def test_streams_in_a_table_show_each_offset(
    registry: Registry, state: str, tmp_path: Path
) -> None:
    create(registry, "orders")
    quiet_stream(Path(state), tmp_path / "t", "payments", utc_now())
    for version in (1, 2):
        add_file(tmp_path / "t", version, utc_now())
    code, printed, _ = run("--state", state)
    assert code == 0
    first, second = (line.split() for line in printed.splitlines()[2:])
    assert (first[0], first[2]) == ("orders", "stale")
    assert second[:7] == ["payments", "lake.payments", "idle", "0", "2", "maybe", second[6]]


def test_streams_in_a_table_show_rows_and_whether_there_is_data(
    registry: Registry, state: str, tmp_path: Path
) -> None:
    for name, rows in (("a", None), ("b", 7), ("c", 0)):
        quiet_stream(Path(state), tmp_path / name, name, utc_now())
        if rows != 0:
            add_file(tmp_path / name, 1, utc_now(), rows=rows)
    printed = run("--state", state)[1].splitlines()
    assert [line.split()[4:-1] for line in printed[2:]] == [
        ["1", "maybe"],
        ["1", "7", "yes"],
        ["0", "0", "no"],
    ]
    _, described, _ = run("b", "--output", "yaml", state=state)
    (line,) = yaml.safe_load(described)
    assert (line["rows_waiting"], line["has_data"], line["name"]) == (7, True, "b")


@pytest.mark.parametrize("columns", [None, "60", "200"])
def test_piped_tables_fit_into_eighty_columns(
    registry: Registry, state: str, columns: str | None
) -> None:
    create(registry, "a_stream_with_a_name_that_is_longer_than_most_others_are_ever_given")
    create(registry, "s")
    for arguments in ([], ["s"]):
        command = ["streams", "--state", state, *arguments]
        printed = CliRunner().invoke(app, command, env={"COLUMNS": columns}).stdout
        assert max(map(len, printed.splitlines())) <= WIDTH
        assert "…" not in printed


def test_stream_by_name_is_described_column_by_column(registry: Registry, state: str) -> None:
    create(registry, "orders")
    create(registry, "other")
    code, printed, _ = run("ORDERS", state=state)
    words = (line.split(maxsplit=1) for line in printed.splitlines())
    described = {found[0]: found[1].rstrip() for found in words if len(found) > 1}
    assert (code, described["name"], described["owner"]) == (0, "orders", "somebody")
    assert "other" not in printed


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(("nothing",), "does not exist"), (("--state", "relative"), "absolute path")],
)
def test_streams_that_cannot_be_shown_print_one_line_to_standard_error(
    registry: Registry, state: str, arguments: tuple[str, ...], problem: str
) -> None:
    create(registry, "s")
    code, printed, said = run(*arguments, state=state)
    assert (code, printed) == (1, "")
    assert problem in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("command", ["streams", "upsert-tables", "usage"])
@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_folder_without_a_registry_is_refused_and_named(
    tmp_path: Path, command: str, output: str
) -> None:
    found = CliRunner().invoke(app, [command, "--state", str(tmp_path), "--output", output])

    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith(f"state folder {tmp_path}: holds no registry of streams.")


def test_registry_without_streams_prints_an_empty_list(registry: Registry, state: str) -> None:
    create(registry, "s")
    StreamCatalog(state, principal="somebody").drop_stream("s")

    assert run("--output", "json", state=state) == (0, "[]\n", "")


def test_errors_show_no_locals_which_may_hold_secrets() -> None:
    assert app.pretty_exceptions_show_locals is False


@pytest.mark.parametrize("command", ["streams", "upsert-tables", "usage"])
def test_help_mentions_only_what_users_have(command: str) -> None:
    found = CliRunner().invoke(app, [command, "--help"])

    assert found.exit_code == 0
    assert "Show " in found.stdout
    assert "seed" not in found.stdout.lower()


def test_change_streams_in_a_table_show_how_far_each_consumer_is(
    registry: Registry, state: str
) -> None:
    create(registry, "orders")
    files, noon = Files(), stamp_of(NOON)
    streams = ChangeStreams(state, files)
    stream = streams.create(new_change_stream(noon), None)
    consumers = ChangeStreamConsumers(streams, files)
    for name in ("reports", "audit"):
        begun = ConsumerState.begun(name, stream, noon, None)
        consumers.begin(stream, name, lambda _, begun=begun: begun)

    found = CliRunner().invoke(app, ["change-streams"], env={"CDC_STATE": state})

    first, second = (line.split() for line in found.stdout.splitlines()[2:])
    assert first == [
        "cs",
        "t",
        "2",
        "2026-01-01",
        "12:00",
        "0",
        "0",
        "audit",
        "2026-01-01",
        "11:59",
    ]
    assert second == ["reports", "2026-01-01", "11:59"]
