"""What ``doctor`` finds: on this machine, and in a state folder that is well or not."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from streams import add_file, quiet_stream
from typer.testing import CliRunner

from airflow_provider_cdc.cli import doctor
from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.clock import utc_now


def run(state: str) -> tuple[int, dict[str, str]]:
    found = CliRunner().invoke(app, ["doctor", "--no-job", "--state", state])
    parts = (line.partition(": ") for line in found.stdout.splitlines())
    return found.exit_code, {subject: text for subject, _, text in parts}


@pytest.fixture
def site(state: str, tmp_path: Path) -> str:
    quiet_stream(Path(state), tmp_path / "t", "orders", utc_now())
    add_file(tmp_path / "t", 1, utc_now())
    StreamMonitor(state).run({}, margin="P1D")
    return state


def test_doctor_finds_nothing_wrong_where_all_is_well(site: str) -> None:
    code, found = run(site)
    assert code == 0
    assert all(subject.startswith("ok") for subject in found)
    assert found["ok    sources"] == "all 1 stream can be read."
    assert found["ok    monitor"].startswith("the last check was ")
    assert not [path for path in Path(site).iterdir() if path.name.startswith("doctor")]


def test_doctor_names_a_source_that_cannot_be_read(site: str, tmp_path: Path) -> None:
    (tmp_path / "t/_delta_log" / f"{0:020d}.json").unlink()
    (tmp_path / "t/_delta_log" / f"{1:020d}.json").unlink()
    code, found = run(site)
    assert code == 1
    assert "1 stream of 1 cannot be read: stream orders" in found["FAIL  sources"]


@pytest.mark.parametrize("is_on", [True, False])
def test_doctor_names_tables_without_row_tracking(site: str, tmp_path: Path, is_on: bool) -> None:
    metadata = {
        "id": "a-table-id",
        "configuration": {"delta.enableRowTracking": str(is_on).lower()},
    }
    actions = ({"metaData": metadata}, {"protocol": {"minReaderVersion": 1}})
    log = tmp_path / "t/_delta_log"
    (log / f"{2:020d}.json").write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    code, found = run(site)
    assert code == (0 if is_on else 1)
    if is_on:
        assert found["ok    row tracking"] == "is on in 1 table that streams read."
    else:
        text = found["FAIL  row tracking"]
        assert text.startswith("is off in 1 table of 1: lake.orders (read by orders). Fix: ")
        assert "1 stream of 1 cannot be read" in found["FAIL  sources"]


def test_doctor_says_that_the_monitor_is_missing_or_late(site: str, tmp_path: Path) -> None:
    late = utc_now() - timedelta(hours=2)
    StreamMonitor(site, clock=lambda: late).run({}, margin="P1D")
    code, found = run(site)
    assert code == 1
    assert "2 hours" in found["FAIL  monitor"]
    code, found = run(str(tmp_path))
    assert "no monitor has checked" in found["FAIL  monitor"]


def test_doctor_creates_no_state_folder(tmp_path: Path) -> None:
    code, found = run(str(tmp_path / "missing"))
    assert code == 1
    assert "does not exist on this machine" in found["FAIL  state folder"]
    assert not (tmp_path / "missing").exists()


def test_doctor_names_versions_that_are_too_old(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_java_version", lambda: "11.0.2")
    monkeypatch.setattr(doctor, "_package", {"pyspark": "3.5.1"}.get)
    code, found = run(site)
    assert code == 1
    assert found["FAIL  Java"].startswith("expected 17 or newer, found 11.0.2. Fix: ")
    assert found["FAIL  Spark"].startswith("expected 4.2 or newer, found 3.5.1. Fix: ")
    assert found["FAIL  Delta"].startswith("expected 4.4 or newer, found no version. Fix: ")
