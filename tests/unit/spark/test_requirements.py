"""Errors on a Spark, a Delta, a Java or a session that the engine cannot work with."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from airflow_provider_cdc.engine import UnsupportedEnvironment
from airflow_provider_cdc.engine.core.requirements import (
    DELTA_PACKAGE,
    DELTA_SETTINGS,
    check_settings,
    check_version,
)
from airflow_provider_cdc.engine.spark.session import installed, local_session
from airflow_provider_cdc.engine.spark.session.session_checks import check_session
from airflow_provider_cdc.jobs.entry_point import DELTA_CONF

ROOT = Path(__file__).parents[3]
EXTENSIONS, CATALOG = DELTA_SETTINGS


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("3.5.3", "needs Spark 4.2, found 3.5.3"),
        ("4.1.0", "needs Spark 4.2, found 4.1.0"),
        ("4", "needs Spark 4.2, found 4"),
        (None, "needs Spark 4.2, found none"),
        ("unknown", "needs Spark 4.2, found unknown"),
    ],
)
def test_too_old_or_unknown_version_is_refused_and_named(found: str | None, message: str) -> None:
    with pytest.raises(UnsupportedEnvironment, match=message):
        check_version("Spark", found, (4, 2), "another")


@pytest.mark.parametrize("found", ["4.2.0", "4.2.1-SNAPSHOT", "4.10.0", "5.0"])
def test_version_that_is_new_enough_passes(found: str) -> None:
    check_version("Spark", found, (4, 2), "another")


def test_older_pyspark_beside_the_engine_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark/__init__.py").write_text('__version__ = "3.5.3"\n')
    code = "import airflow_provider_cdc.engine as cdc; cdc.StreamCatalog; cdc.Engine"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.returncode == 1
    last = found.stderr.splitlines()[-1]
    assert "UnsupportedEnvironment: airflow-provider-cdc: needs Spark 4.2, found 3.5.3." in last


def test_older_delta_is_refused_and_a_missing_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "delta_version", lambda: "3.3.2")
    with pytest.raises(UnsupportedEnvironment, match=r"needs Delta 4.4, found 3.3.2"):
        installed.check_installed()

    monkeypatch.setattr(installed, "delta_version", lambda: None)
    installed.check_installed()


@pytest.mark.parametrize(
    ("version", "message"), [("11.0.2", "found 11.0.2"), ("1.8.0_412", "found 8.0_412")]
)
def test_older_java_is_refused_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, message: str
) -> None:
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(UnsupportedEnvironment, match=f"needs Java 17, {message}"):
        installed.check_java()


def test_missing_java_is_reported_with_the_places_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnsupportedEnvironment, match=f"Java 17, found none.*{tmp_path}"):
        installed.check_java()

    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedEnvironment, match=r"found none.*on the PATH"):
        installed.check_java()


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, [EXTENSIONS, CATALOG]),
        ({EXTENSIONS: "org.example.Other", CATALOG: "builtin"}, [EXTENSIONS, CATALOG]),
        (DELTA_SETTINGS | {EXTENSIONS: ""}, [EXTENSIONS]),
        (DELTA_SETTINGS | {CATALOG: ""}, [CATALOG]),
    ],
)
def test_session_without_delta_is_refused_with_the_missing_settings(
    settings: dict[str, str], missing: list[str]
) -> None:
    with pytest.raises(UnsupportedEnvironment) as caught:
        check_settings(settings)

    advice = [f"{name}={DELTA_SETTINGS[name]}" for name in missing]
    assert all(each in caught.value.fix for each in advice)
    assert caught.value.fix.count("=") == len(missing)


def test_session_with_another_catalog_and_more_extensions_passes() -> None:
    extensions = f"org.example.Other,{DELTA_SETTINGS[EXTENSIONS]}"
    check_settings({EXTENSIONS: extensions, CATALOG: "io.unitycatalog.spark.UCSingleCatalog"})


class Session:
    """The parts of a session that are checked before any table."""

    def __init__(
        self, version: str = "4.2.0", answer: Exception | None = None, **conf: str
    ) -> None:
        self.version = version
        self.conf = DELTA_SETTINGS | conf
        self.answer = answer
        self.asked: list[str] = []

    def sql(self, text: str) -> Any:
        self.asked.append(text)
        return SimpleNamespace(collect=self._collect)

    def _collect(self) -> None:
        if self.answer:
            raise self.answer


def _condition(name: str) -> Exception:
    error = AnalysisException(name)
    error.getCondition = lambda: name  # type: ignore[method-assign]
    return error


def test_older_spark_of_a_session_is_refused_and_named() -> None:
    with pytest.raises(UnsupportedEnvironment, match=r"needs Spark 4.2, found 4.1.1"):
        check_session(Session("4.1.1"))  # type: ignore[arg-type]


def test_session_without_the_delta_jar_is_refused_with_the_jar_name() -> None:
    session: Any = Session(answer=_condition("PARSE_SYNTAX_ERROR"))
    with pytest.raises(UnsupportedEnvironment, match=r"lacks Delta's jar.*io.delta:delta-spark"):
        check_session(session)


def test_session_that_passed_is_not_asked_again() -> None:
    session: Any = Session(answer=_condition("DELTA_PATH_DOES_NOT_EXIST"))
    check_session(session)
    check_session(session)

    assert len(session.asked) == 1


def test_environment_of_a_local_session_reaches_only_its_jvm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.2")
    monkeypatch.delenv("LOG4J_CONFIGURATION_FILE", raising=False)

    with local_session._environment():
        # A value that a user has set stays.
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.2"
        assert Path(os.environ["LOG4J_CONFIGURATION_FILE"]).is_file()

    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.2"
    assert "LOG4J_CONFIGURATION_FILE" not in os.environ


@pytest.mark.parametrize("is_fetched", [False, True])
def test_delta_loads_from_its_jars_once_they_are_fetched(tmp_path: Path, is_fetched: bool) -> None:
    names = ("io.delta_delta-spark_4.2_2.13-4.4.0.jar", "io.delta_delta-storage-4.4.0.jar")
    (tmp_path / "jars").mkdir()
    for name in names[: 2 if is_fetched else 1]:
        (tmp_path / "jars" / name).touch()

    found = local_session._delta(str(tmp_path))

    jars = ",".join((tmp_path / "jars" / name).as_uri() for name in names)
    assert found == ({"spark.jars": jars} if is_fetched else {"spark.jars.packages": DELTA_PACKAGE})


@pytest.fixture
def package_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("airflow_provider_cdc")
    level, handlers = logger.level, list(logger.handlers)
    yield logger
    logger.handlers[:], logger.propagate = handlers, True
    logger.setLevel(level)


def test_local_session_shows_each_log_line_of_a_consumption_once(
    package_logger: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    for _ in range(2):
        local_session.show_log_lines()

    logging.getLogger("airflow_provider_cdc.engine.consumption.attempts").info("1 row inserted")

    assert re.fullmatch(r"\d\d:\d\d:\d\d 1 row inserted\n", capsys.readouterr().err)


def test_local_session_adds_no_handler_if_logging_is_set_up(
    package_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler()])
    local_session.show_log_lines()
    assert package_logger.handlers == []


def test_jobs_and_local_sessions_use_the_same_delta_settings() -> None:
    assert DELTA_CONF == DELTA_SETTINGS
