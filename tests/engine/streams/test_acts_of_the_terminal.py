"""The acts of ``python -m airflow_provider_cdc`` that need Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from stream_lab import StreamLab
from typer.testing import CliRunner

from airflow_provider_cdc.cli import terminal_acts
from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.cli.text_tables import WIDTH
from airflow_provider_cdc.engine.spark.session import folder_reach

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, price DECIMAL(30, 10)")
    return lab


@pytest.fixture
def run(lab: StreamLab, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on the session of the tests."""
    monkeypatch.setattr(terminal_acts, "_session", lambda: lab.spark)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        state = {"CDC_STATE": lab.path("state")}
        found = CliRunner().invoke(app, list(arguments), env=state)
        return found.exit_code, found.stdout, found.stderr

    return invoke


def done(run: Run, *arguments: str) -> Any:
    code, printed, said = run(*arguments)
    assert code == 0, said
    return json.loads(printed)


def test_stream_is_created_read_and_rewound_by_the_terminal(lab: StreamLab, run: Run) -> None:
    create = ("create", "s", "--on-table", lab.path("src"), "--comment", "by hand")
    line = done(run, *create, "--readers", "ada", "--readers", "bob", "--max-lag", "PT10M")
    assert (line["did"], line["mode"]) == ("create", "standard")
    first = line["offsets"]
    stream = lab.engine.describe_stream("s")
    assert (stream.comment, stream.readers) == ("by hand", ("ada", "bob"))
    assert done(run, *create, "--if-not-exists")["offsets"] == first
    assert run(*create)[2].startswith("stream s: exists already")

    lab.sql("INSERT INTO {src} VALUES (1, 12345678901234567890.5), (2, NULL), (3, 0.5)")
    lines = done(run, "read", "s", "-o", "json")
    assert sorted(each["id"] for each in lines) == [1, 2, 3]
    (exact,) = (each["price"] for each in lines if each["id"] == 1)
    assert exact == "12345678901234567890.5000000000"
    assert {each["METADATA$ACTION"] for each in lines} == {"INSERT"}
    assert len(done(run, "read", "s", "--limit", "2", "-o", "json")) == 2
    assert yaml.safe_load(run("read", "s", "-o", "yaml")[1])[0].keys() == lines[0].keys()
    table = run("read", "s")[1]
    assert "INSERT" in table
    assert max(map(len, table.splitlines())) <= WIDTH

    done(run, "advance", "s", "--yes")
    assert run("read", "s", "-o", "json")[1] == "[]\n"
    point = f"version={first[0]}"
    assert run("rewind", "s", "--to", point)[0] == 1
    assert done(run, "rewind", "s", "--to", point, "--yes")["offsets"] == first
    assert len(done(run, "read", "s", "-o", "json")) == 3


def test_wrong_act_on_spark_ends_with_one_line(lab: StreamLab, run: Run) -> None:
    for arguments, problem in (
        (("create", "s"), "stream s: "),
        (("create", "s", "--on-table", lab.path("missing")), "missing"),
        (("create", "s", "--on-view", "no view"), "no view"),
        (("create", "a b", "--on-table", lab.path("src")), "is not a valid name"),
    ):
        code, printed, said = run(*arguments)
        assert (code, printed) == (1, "")
        assert problem in said
        assert len(said.splitlines()) == 1


def test_doctor_checks_what_driver_and_executors_reach(
    lab: StreamLab, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Path(lab.path("state"))
    state.mkdir(exist_ok=True)
    lines = run("doctor")[1].splitlines()
    both = [line.partition(": ")[0] for line in lines if "state folder from" in line]
    assert both == ["ok    state folder from the driver", "ok    state folder from the executors"]
    assert not list(state.glob("doctor-*"))

    # As if the driver had another folder under the same name.
    monkeypatch.setattr(folder_reach.Files, "exists", lambda _, uri: "doctor-" not in uri)
    monkeypatch.setattr(folder_reach, "folder_finding", lambda *_: 1 / 0)
    code, printed, _ = run("doctor")
    assert code == 1
    assert (
        "FAIL  state folder from the driver: cannot be read and written (ZeroDivisionError)"
        in printed
    )
    assert "FAIL  state folder from the executors: the driver does not see what" in printed


def test_values_of_any_type_are_shown(lab: StreamLab, run: Run) -> None:
    lab.make(
        "wide", "id INT, b BINARY, at TIMESTAMP, day DATE, x DOUBLE, m MAP<STRING, ARRAY<INT>>"
    )
    done(run, "create", "s", "--on-table", lab.path("wide"))
    lab.sql(
        "INSERT INTO {wide} SELECT 1, X'00ff', TIMESTAMP '2026-01-01T00:00:00.123456+02:00',"
        " DATE '2026-01-02', double('NaN'), map('k', array(1, NULL))"
    )
    (line,) = done(run, "read", "s", "-o", "json")
    assert [line[name] for name in ("b", "at", "day", "x", "m")] == [
        "AP8=",
        "2025-12-31T22:00:00.123456Z",
        "2026-01-02",
        "NaN",
        {"k": [1, None]},
    ]
    printed = run("read", "s")[1].splitlines()
    described = {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in printed if line}
    assert (described["m"], described["METADATA$ISUPDATE"]) == ('{"k": [1, null]}', "false")
