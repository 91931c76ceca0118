"""The commands of ``airflow cdc`` that need no Spark job."""

from __future__ import annotations

import json

import pytest
from streams import new_stream, register
from typer.main import get_command

from airflow_provider_cdc.cli.airflow_commands import get_commands
from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.jobs.model import Answer, JobError

pytestmark = pytest.mark.airflow


@pytest.fixture
def run(tmp_path, define_connection, cdc_command):
    """Runs a command on a state folder with a stream ``s``."""
    define_connection("cdc_default", "cdc", state=str(tmp_path), principal="somebody")
    register(tmp_path, new_stream("s"))
    return cdc_command


def test_both_command_lines_have_the_same_acts_and_options():
    (group,) = get_commands()
    airflow = {
        command.name: {flag for each in command.args for flag in each.flags}
        for command in group.subcommands
    }
    terminal = {
        name: {flag for each in command.params for flag in each.opts}
        for name, command in get_command(app).commands.items()
    }
    assert terminal.keys() - airflow.keys() == {"usage"}
    assert airflow.keys() <= terminal.keys()
    own = {"--state", "--storage-options", "--principal"}
    for name, flags in airflow.items():
        found = flags - {"--conn-id", "name", "-v", "--verbose"}
        assert found == terminal[name] - own - {"name"}, name


def test_alter_changes_a_stream_of_the_connection(run):
    printed = json.loads(run("alter", "s", "--comment", "nightly", "--readers", "ada"))
    assert printed == {"stream": "s", "did": "alter", "comment": "nightly", "readers": ["ada"]}
    assert CdcHook().catalog().get_stream("s").comment == "nightly"
    with pytest.raises(SystemExit, match="stream s: is not altered"):
        run("alter", "s")


@pytest.mark.parametrize(
    "arguments",
    [
        ("drop", "s"),
        ("advance", "s"),
        ("rewind", "s", "--to=version=1"),
        ("create", "s", "--on-table=t", "--or-replace"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_act_without_a_yes_does_nothing(run, monkeypatch, arguments):
    def no_answer(_):
        raise EOFError

    for answer in (no_answer, lambda _: "n"):
        monkeypatch.setattr("builtins.input", answer)
        with pytest.raises(SystemExit, match="Nothing was done"):
            run(*arguments)


def test_job_that_fails_ends_the_command_with_its_message(run, monkeypatch):
    class Failing:
        logs_here = False

        def run(self):
            return Answer("r", JobError("stream_stale", "stream s: is stale. Fix: drop it.", False))

    monkeypatch.setattr(CdcHook, "submission", lambda *_: Failing())
    with pytest.raises(SystemExit, match="stream s: is stale"):
        run("read", "s")
    with pytest.raises(SystemExit, match="limit 0"):
        run("read", "s", "--limit", "0")


def test_job_without_a_spark_connection_is_refused(run):
    with pytest.raises(SystemExit, match="Spark connection spark_default: was not found"):
        run("read", "s")


def test_missing_connection_is_named_by_each_command(run):
    for arguments in (("streams",), ("alter", "s", "--comment=c"), ("read", "s")):
        with pytest.raises(SystemExit, match="connection nothing: does not exist"):
            run(*arguments, "--conn-id", "nothing")


def test_doctor_names_a_missing_connection_and_checks_the_machine(run, capsys):
    with pytest.raises(SystemExit, match="1"):
        run("doctor", "--no-job", "--conn-id", "nothing")
    printed = capsys.readouterr().out
    assert "FAIL  connection nothing: does not exist. Fix: create a connection" in printed
    assert "Spark: version" in printed


@pytest.mark.parametrize("every", ["0.1", "nan", "soon"])
def test_watch_names_the_times_that_it_accepts(run, capsys, every):
    with pytest.raises(SystemExit, match="2"):
        run("watch", "--every", every)
    assert f"--every {every}: is not a time between two refreshes" in capsys.readouterr().err
