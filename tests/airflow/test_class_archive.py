"""The archive of classes that the drivers of a worker share."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pyspark
import pytest

from airflow_provider_cdc.hooks.class_archive import ClassArchive
from airflow_provider_cdc.hooks.driver_options import OPTIONS_VARIABLE

SPARK_HOME = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def no_options_of_the_machine(monkeypatch):
    for name in (OPTIONS_VARIABLE, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)


def archive(folder: Path, **conf: str) -> ClassArchive:
    settings = {name.replace("_", "."): value for name, value in conf.items()}
    return ClassArchive(folder, str(SPARK_HOME), settings)


def options_of(found: ClassArchive) -> str:
    return found.environment().get(OPTIONS_VARIABLE, "")


def written(found: ClassArchive) -> None:
    """Do what the JVM of a job does when it ends."""
    draft = options_of(found).partition("-XX:ArchiveClassesAtExit=")[2]
    Path(draft).write_text("classes")
    found.keep()


def test_archive_is_made_by_one_job_and_used_by_those_that_follow(tmp_path):
    written(archive(tmp_path))

    used = archive(tmp_path)
    assert f"-XX:SharedArchiveFile={used.file}" in options_of(used)
    assert archive(tmp_path).file.read_text() == "classes"


def test_archive_that_another_job_makes_is_not_made_twice(tmp_path):
    assert "ArchiveClassesAtExit" in options_of(archive(tmp_path))

    assert archive(tmp_path).environment() == {}


def test_archive_of_a_job_that_was_killed_long_ago_is_made_again(tmp_path):
    options_of(archive(tmp_path))
    (claim,) = tmp_path.glob("*.claim")
    hours_ago = time.time() - 7200
    os.utime(claim, (hours_ago, hours_ago))

    assert "ArchiveClassesAtExit" in options_of(archive(tmp_path))


def test_archive_without_a_draft_is_not_kept(tmp_path):
    found = archive(tmp_path)
    found.environment()

    found.keep()

    assert not found.file.exists()


@pytest.mark.parametrize(
    "option",
    ["-XX:SharedArchiveFile=own.jsa", "-Xshare:off", "-Xlog:gc", "-XX:ArchiveClassesAtExit=x"],
)
def test_archive_is_left_to_users_who_have_options_for_it(tmp_path, monkeypatch, option):
    assert archive(tmp_path, spark_driver_extraJavaOptions=option).environment() == {}

    monkeypatch.setenv(OPTIONS_VARIABLE, option)
    assert archive(tmp_path).environment() == {}


def test_archive_keeps_other_options_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv(OPTIONS_VARIABLE, "-Dmine=1")

    assert options_of(archive(tmp_path)).startswith("-Dmine=1 ")


def test_archive_of_another_class_path_or_java_is_another_one(tmp_path, monkeypatch):
    first = archive(tmp_path).file
    assert archive(tmp_path, spark_driver_extraClassPath="/my.jar").file != first

    java = tmp_path / "java/bin/java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    assert archive(tmp_path).file != first


def test_archive_that_a_real_jvm_writes_is_used_by_the_next_one(tmp_path):
    loads = tmp_path / "loads"

    def run(more: str = "") -> str:
        found = archive(tmp_path)
        environment = {OPTIONS_VARIABLE: options_of(found) + more, "SPARK_HOME": str(SPARK_HOME)}
        done = subprocess.run(
            [str(SPARK_HOME / "bin/spark-submit"), "--version"],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.keep()
        return done.stdout

    said = run()
    assert archive(tmp_path).file.stat().st_size > 1_000_000

    assert run(f" -Xlog:class+load:file={loads}") == said
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file (top)" in (
        loads.read_text()
    )
