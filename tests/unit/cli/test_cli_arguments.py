"""Any command line ends with a result or with one of our messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from absurd_values import ABSURD
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streams import new_stream, register
from typer.testing import CliRunner

from airflow_provider_cdc.cli import terminal_acts
from airflow_provider_cdc.cli.act_options import ALTER_OPTIONS, CREATE_OPTIONS
from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.engine.core.errors import UnsupportedEnvironment

TEXTS = [value for value in ABSURD if isinstance(value, str) and value != "\ud800"]
FEW_TEXTS = ("", "\x00", "10 minutes", "ünï `a'b\"c\\d${e}", "9" * 300)
# Exit codes: success, one of our errors, and a command line that typer refuses.
ENDS = (0, 1, 2)


def check(*arguments: str, **environment: str) -> None:
    """Only our errors end a command."""
    found = CliRunner().invoke(app, list(arguments), env=environment)
    assert found.exit_code in ENDS, found.output
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception


@pytest.fixture
def state(tmp_path: Path) -> str:
    register(tmp_path, new_stream("s"))
    return str(tmp_path)


@pytest.mark.parametrize("command", ["streams", "upsert-tables", "usage"])
def test_absurd_options_of_a_command_are_refused(command: str, state: str) -> None:
    for text in TEXTS:
        check(command, "--state", text)
        check(command, "--state", state, CDC_STORAGE_OPTIONS=text.replace("\x00", ""))
        check(command, "--state", state, "--output", text)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no session starts."""

    def refuse() -> None:
        raise UnsupportedEnvironment("Java", "is missing")

    monkeypatch.setattr(terminal_acts, "_session", refuse)


@pytest.mark.usefixtures("no_spark")
def test_absurd_options_of_an_act_are_refused_or_kept(state: str) -> None:
    for text in FEW_TEXTS:
        for option in CREATE_OPTIONS:
            check("create", "--state", state, "--yes", "t", f"{option.flag}={text}")
        for option in ALTER_OPTIONS:
            check("alter", "--state", state, "s", f"{option.flag}={text}")
        check("read", "--state", state, "s", f"--limit={text}")
        check("rewind", "--state", state, "--yes", "s", f"--to={text}")
        check("rewind", "--state", state, "--yes", "s", f"--to=version={text}")
        check("watch", "--state", state, f"--every={text[:3]}x")
        for act in ("create", "alter", "read", "advance", "drop"):
            check(act, "--state", state, "--principal", text, "--", text)


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(text=st.one_of(st.sampled_from(TEXTS), st.text(st.characters(codec="utf-8"), max_size=12)))
def test_absurd_names_and_lengths_are_refused(text: str, state: str) -> None:
    check("streams", "--state", state, "--", text)
    check("usage", "--state", state, f"--since={text}")
    check("usage", "--state", state, f"--period={text}")


@pytest.mark.parametrize(
    ("option", "value"), [("--since", "7"), ("--period", "PT0S"), ("--period", "10 minutes")]
)
def test_invalid_length_is_refused_with_the_name_of_its_option(
    option: str, value: str, state: str
) -> None:
    found: Any = CliRunner().invoke(app, ["usage", "--state", state, option, value])
    assert (found.exit_code, option in found.stderr) == (1, True)
    assert "write INTERVAL 10 MINUTE, PT10M" in found.stderr
