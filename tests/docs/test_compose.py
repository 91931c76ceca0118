"""The compose file fits its description, the compose specification and the files it names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from cdc_stack import compose
from cdc_stack.__main__ import app
from cdc_stack.settings import s3a_secrets, storage_options
from typer.testing import CliRunner

from airflow_provider_cdc.engine.core.requirements import DELTA_PACKAGE
from airflow_provider_cdc.engine.log_store import default_settings
from airflow_provider_cdc.engine.spark.session.local_session import delta_jars
from airflow_provider_cdc.hooks.connection import CdcConnection

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
VARIABLE = re.compile(r"\$\{(\w+)(:[?-][^}]*)?\}")
EXAMPLE = (DOCKER / ".env.example").read_text(encoding="utf-8")
SECRETS = ("KEY", "SECRET", "PASSWORD")


def text() -> str:
    return compose.FILE.read_text(encoding="utf-8")


@cache
def project() -> dict[str, Any]:
    return yaml.safe_load(text())


def services() -> dict[str, dict[str, Any]]:
    return project()["services"]


def with_values(value: str) -> dict[str, Any]:
    """The compose file as an object, with ``value`` in place of each variable."""
    return yaml.safe_load(VARIABLE.sub(value, text()))


def variables_of_example() -> set[str]:
    return set(re.findall(r"^(?:# )?([A-Z0-9_]+)=", EXAMPLE, re.MULTILINE))


def test_compose_file_is_what_the_description_makes() -> None:
    assert text() == compose.text(), "run make compose"


def test_command_writes_the_compose_file(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["compose", "--file", str(tmp_path / "compose.yaml")])

    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "compose.yaml").read_text(encoding="utf-8") == text()


def test_compose_file_is_valid_by_the_compose_specification() -> None:
    vendored = resources.files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    schema = json.loads(vendored.read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)

    assert [error.message for error in validator.iter_errors(project())] == []
    broken = {**project(), "services": {"s3": {"comand": []}}}
    assert not validator.is_valid(broken)


def test_variables_of_the_compose_file_are_all_in_the_example() -> None:
    used = {name for name, _ in VARIABLE.findall(text())}

    assert used == variables_of_example()
    assert text().count("$") == len(VARIABLE.findall(text()))


def test_variables_without_a_default_must_be_set() -> None:
    for name, otherwise in VARIABLE.findall(text()):
        assert otherwise.startswith(":-" if name == "DAGS_FOLDER" else ":?"), name


def test_secrets_are_variables_and_empty_in_the_example() -> None:
    named = re.compile(rf"\w*(?:{'|'.join(SECRETS)})\w*", re.IGNORECASE)
    settings = {
        name: value
        for service in services().values()
        for name, value in service.get("environment", {}).items()
        if named.fullmatch(name)
    }

    assert settings
    assert {name for name, value in settings.items() if not VARIABLE.search(value)} == set()
    assert re.findall(r"^[A-Z0-9_]+=(.+)$", EXAMPLE, re.MULTILINE) == []


def test_keys_of_s3_reach_spark_and_airflow_as_variables() -> None:
    content = project()["configs"]["spark-connect"]["content"]
    keys = s3a_secrets(compose.S3_KEY, compose.S3_SECRET)

    assert {f"{name} {value}" for name, value in keys.items()} <= set(content.splitlines())
    assert services()["spark-connect"]["configs"][0]["target"] == compose.SITE.conf_file


@pytest.mark.parametrize(
    ("cdc", "spark", "conn_type"),
    [
        ("CDC_DEFAULT", "spark_default", "spark_connect"),
        ("CDC_CLUSTER", "spark_cluster", "spark"),
    ],
)
def test_connections_of_airflow_are_valid(cdc: str, spark: str, conn_type: str) -> None:
    environment = with_values("word")["services"]["airflow-scheduler"]["environment"]
    given = json.loads(environment[f"AIRFLOW_CONN_{cdc}"])
    of_spark = json.loads(environment[f"AIRFLOW_CONN_{spark.upper()}"])
    parsed = CdcConnection.from_extra(cdc.lower(), given["extra"])

    assert (given["conn_type"], of_spark["conn_type"]) == ("cdc", conn_type)
    assert parsed.spark_conn_id == spark
    s3 = compose.SITE.addresses["s3"]
    assert parsed.store_options == storage_options(s3, "word", "word")
    # With a log store of its own, a job would get the name of the class and not its jar.
    assert default_settings(parsed.conf)


def test_parts_of_airflow_have_the_same_environment_and_mount_only_dags() -> None:
    parts = {name: it for name, it in services().items() if name.startswith("airflow-")}
    environments = {json.dumps(part["environment"]) for part in parts.values()}
    mounts = {mount for part in parts.values() for mount in part["volumes"]}
    folders = {mount for mount in mounts if mount.partition(":")[0] not in project()["volumes"]}

    assert len(parts) == 5
    assert len(environments) == 1
    assert folders == {"${DAGS_FOLDER:-../dags}:/opt/airflow/dags:ro"}
    assert (DOCKER / "../dags").is_dir()


def test_service_has_a_health_check_or_ends_by_itself() -> None:
    ending = {name for name, it in services().items() if "healthcheck" not in it}

    assert ending == set(compose.ONE_SHOTS)
    assert {services()[name]["restart"] for name in ending} == {"no"}


def test_service_waits_until_others_are_healthy_or_have_ended() -> None:
    for name, service in services().items():
        for other, condition in service.get("depends_on", {}).items():
            ends = "healthcheck" not in services()[other]
            expected = "service_completed_successfully" if ends else "service_healthy"
            assert condition == {"condition": expected}, (name, other)


def test_ports_are_published_on_the_loopback_address_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]

    assert len(ports) == len(set(ports)) == 4
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)
    assert not any("network_mode" in service for service in services().values())


def dockerfile() -> str:
    return (ROOT / compose.DOCKERFILE).read_text(encoding="utf-8")


def copied(file: Path) -> list[str]:
    """The paths of the project that ``file`` copies."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


@pytest.mark.parametrize("file", sorted(DOCKER.glob("*.Dockerfile")), ids=lambda file: file.name)
def test_dockerfile_copies_paths_that_exist(file: Path) -> None:
    assert copied(file)
    assert [source for source in copied(file) if not (ROOT / source).exists()] == []


def test_build_context_has_exactly_what_the_dockerfile_copies() -> None:
    ignore = (ROOT / f"{compose.DOCKERFILE}.dockerignore").read_text(encoding="utf-8").splitlines()

    assert ignore[0] == "*"
    assert {line[1:] for line in ignore if line.startswith("!")} == set(
        copied(ROOT / compose.DOCKERFILE)
    )


def test_dockerfile_has_a_stage_for_each_image() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", dockerfile(), re.MULTILINE))
    built = [service["build"] for service in services().values() if "build" in service]

    assert {build["target"] for build in built} == {"s3", "spark", "airflow"}
    assert {build["target"] for build in built} <= stages
    assert all((DOCKER / build["context"] / build["dockerfile"]).is_file() for build in built)


def test_dockerfile_installs_the_delta_and_the_python_of_the_tests() -> None:
    ivy = (ROOT / "requirements/delta.ivy.xml").read_text(encoding="utf-8")
    found = re.findall(r'org="(\S+)" name="(\S+)" rev="(\S+)"', ivy)
    (python,) = re.findall(r"^FROM python:(\d+\.\d+)", dockerfile(), re.MULTILINE)

    assert tuple(DELTA_PACKAGE.split(":")) in found
    assert {f"{group}_{name}-{version}.jar" for group, name, version in found} == {
        jar.name for jar in delta_jars()
    }
    assert f"python{python}/" in compose.SITE_PACKAGES
    assert f"{compose.SITE_PACKAGES}/pyspark/jars/ivy-" in dockerfile()
    assert f"{compose.JARS.removeprefix('file://').removesuffix('*.jar')}[artifact]" in dockerfile()


def constraints() -> list[str]:
    """The versions that the Dockerfile takes from the lock file, by its own command."""
    (script,) = re.findall(r"sed -nE '([^']+)'", dockerfile())
    lock = ROOT / "requirements/all.lock"
    found = subprocess.run(
        ["sed", "-nE", script, str(lock)], capture_output=True, text=True, check=True
    )
    return found.stdout.splitlines()


def test_dockerfile_takes_every_version_of_the_lock_file() -> None:
    lock = (ROOT / "requirements/all.lock").read_text(encoding="utf-8")
    locked = re.findall(r"^[A-Za-z0-9].*==", lock, re.MULTILINE)

    assert len(constraints()) == len(locked)
    assert not [line for line in constraints() if "[" in line or "\\" in line]
    assert {
        "apache-airflow==3.3.2",
        "apache-airflow-providers-apache-spark==6.3.4",
        "delta-spark==4.4.0",
        "pyspark==4.2.0",
    } <= set(constraints())


def has_compose() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    asked = subprocess.run([docker, "compose", "version"], capture_output=True, check=False)
    return asked.returncode == 0


@pytest.mark.skipif(not has_compose(), reason="docker compose is not installed")
def test_docker_compose_accepts_the_file(tmp_path: Path) -> None:
    env = tmp_path / "env"
    env.write_text("".join(f"{name}=word\n" for name in variables_of_example()), encoding="utf-8")

    command = ["docker", "compose", "--env-file", str(env), "-f", str(compose.FILE), "config"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)

    assert answer.returncode == 0, answer.stderr
    assert set(yaml.safe_load(answer.stdout)["services"]) == set(services())
