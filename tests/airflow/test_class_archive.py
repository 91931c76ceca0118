"""The archive of classes that the drivers of a worker share."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pyspark
import pytest

from airflow_provider_cdc.hooks.class_archive import OPTIONS_VARIABLE, ClassArchive

SPARK_HOME = Path(pyspark.__file__).parent
CLASS_PATH = "spark.driver.extraClassPath"


@pytest.fixture(autouse=True)
def no_options_of_the_machine(monkeypatch):
    for name in (OPTIONS_VARIABLE, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def jar(tmp_path) -> Path:
    """A jar whose name needs an escape in a URI."""
    found = tmp_path / "a jar.jar"
    found.touch()
    return found


def archive(folder: Path, jar: Path, **conf: str) -> ClassArchive:
    settings = {name.replace("_", "."): value for name, value in conf.items()}
    return ClassArchive(folder, [jar.as_uri()], str(SPARK_HOME), settings)


def options_of(found: ClassArchive) -> str:
    return found.settings()[1].get(OPTIONS_VARIABLE, "")


def written(found: ClassArchive) -> None:
    """Do what the JVM of a job does when it ends."""
    draft = options_of(found).partition("-XX:ArchiveClassesAtExit=")[2]
    Path(draft).write_text("classes")
    found.keep()


def test_archive_is_made_by_one_job_and_used_by_those_that_follow(tmp_path, jar):
    written(archive(tmp_path, jar))

    conf, environment = archive(tmp_path, jar).settings()

    assert conf == {CLASS_PATH: str(jar)}
    assert f"-XX:SharedArchiveFile={archive(tmp_path, jar).file}" in environment[OPTIONS_VARIABLE]
    assert archive(tmp_path, jar).file.read_text() == "classes"


def test_archive_that_another_job_makes_is_not_made_twice(tmp_path, jar):
    assert "ArchiveClassesAtExit" in options_of(archive(tmp_path, jar))

    assert archive(tmp_path, jar).settings() == ({}, {})


def test_archive_of_a_job_that_was_killed_long_ago_is_made_again(tmp_path, jar):
    options_of(archive(tmp_path, jar))
    (claim,) = tmp_path.glob("*.claim")
    hours_ago = time.time() - 7200
    os.utime(claim, (hours_ago, hours_ago))

    assert "ArchiveClassesAtExit" in options_of(archive(tmp_path, jar))


def test_archive_without_a_draft_is_not_kept(tmp_path, jar):
    found = archive(tmp_path, jar)
    found.settings()

    found.keep()

    assert not found.file.exists()


@pytest.mark.parametrize(
    "option",
    ["-XX:SharedArchiveFile=own.jsa", "-Xshare:off", "-Xlog:gc", "-XX:ArchiveClassesAtExit=x"],
)
def test_archive_is_left_to_users_who_have_options_for_it(tmp_path, jar, monkeypatch, option):
    assert archive(tmp_path, jar, spark_driver_extraJavaOptions=option).settings() == ({}, {})

    monkeypatch.setenv(OPTIONS_VARIABLE, option)
    assert archive(tmp_path, jar).settings() == ({}, {})


def test_archive_keeps_other_options_and_the_class_path_of_the_user(tmp_path, jar, monkeypatch):
    monkeypatch.setenv(OPTIONS_VARIABLE, "-Dmine=1")

    conf, environment = archive(tmp_path, jar, spark_driver_extraClassPath="/my.jar").settings()

    assert conf == {CLASS_PATH: f"/my.jar:{jar}"}
    assert environment[OPTIONS_VARIABLE].startswith("-Dmine=1 ")


def test_archive_needs_each_jar_on_this_machine(tmp_path, jar):
    jar.unlink()

    assert archive(tmp_path, jar).settings() == ({}, {})


def test_archive_of_other_jars_or_another_java_is_another_one(tmp_path, jar, monkeypatch):
    first = archive(tmp_path, jar).file
    other = tmp_path / "other.jar"
    assert archive(tmp_path, other).file != first

    java = tmp_path / "java/bin/java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    assert archive(tmp_path, jar).file != first


def test_archive_that_a_real_jvm_writes_is_used_by_the_next_one(tmp_path):
    (jar,) = SPARK_HOME.glob("jars/spark-core_*.jar")
    copy = tmp_path / jar.name
    shutil.copy(jar, copy)
    loads = tmp_path / "loads"

    def run(more: str = "") -> str:
        found = archive(tmp_path / "worker", copy)
        _, environment = found.settings()
        environment[OPTIONS_VARIABLE] += more
        command = [
            str(SPARK_HOME / "bin/spark-submit"),
            "--driver-class-path",
            str(copy),
            "--version",
        ]
        done = subprocess.run(
            command,
            env=os.environ | environment | {"SPARK_HOME": str(SPARK_HOME)},
            capture_output=True,
            text=True,
            check=True,
        )
        found.keep()
        return done.stdout

    (tmp_path / "worker").mkdir()
    said = run()
    assert archive(tmp_path / "worker", copy).file.stat().st_size > 1_000_000

    assert run(f" -Xlog:class+load:file={loads}") == said
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file (top)" in (
        loads.read_text()
    )
