"""The stack as a compose file: the same services as the processes, and PostgreSQL and Airflow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from airflow_provider_cdc.engine import log_store

from . import settings
from .connections import connections, variable
from .services import REGION, WORKERS, Address, Service, Site, s3_service, spark_services

FILE = Path(__file__).parents[1] / "compose.yaml"
DOCKERFILE = "docker/stack.Dockerfile"
SITE_PACKAGES = "/usr/local/lib/python3.11/site-packages"
SITE = Site(
    listen="0.0.0.0",
    addresses={
        "s3": Address("s3", 4566),
        "spark-master": Address("spark-master", 7077),
        "spark-master-page": Address("spark-master", 8081),
        **{name: Address(name, 7078) for name in WORKERS},
        "spark-connect": Address("spark-connect", 15002),
    },
    spark_home=f"{SITE_PACKAGES}/pyspark",
    python="/usr/local/bin/python",
    data="/data",
    conf_file="/opt/cdc/spark-connect.conf",
)
JARS = "file:///opt/cdc/jars/*.jar"
ONE_SHOTS = ("s3-bucket", "airflow-init")

_HEADER = """\
# `make compose` writes this file from docker/cdc_stack: change the description, not the file.
# docs/how-to/run-with-compose.md is the manual.
"""
_ONE_LINE = 10_000
_LOOPBACK = "127.0.0.1"
_AIRFLOW_HOME = "/opt/airflow"
_AIRFLOW_PORT = 8080
_MAKE_BUCKET = (
    f"import s3fs; s3 = s3fs.S3FileSystem(client_kwargs={{'region_name': '{REGION}'}});"
    f" s3.makedirs('{settings.BUCKET}', exist_ok=True)"
)
_INIT = "airflow db migrate && airflow pools set cdc_background 2 'Applies of upsert tables'"
# Tasks run beside the scheduler, and so do the drivers that they start.
_DRIVER_HOST = "airflow-scheduler"

Yaml = dict[str, Any]


def _from_env(name: str) -> str:
    return f"${{{name}:?missing in docker/.env}}"


S3_KEY, S3_SECRET = _from_env("S3_ACCESS_KEY"), _from_env("S3_SECRET_KEY")
_POSTGRES_PASSWORD = _from_env("POSTGRES_PASSWORD")


def text() -> str:
    """The compose file."""
    written = yaml.dump(project(), Dumper=_Dumper, sort_keys=False, width=_ONE_LINE)
    return _HEADER + written


def project() -> Yaml:
    """The compose file as an object. Services of Airflow share their environment."""
    environment = _airflow_environment()
    return {
        "name": "cdc",
        "x-airflow-environment": environment,
        "services": {**_stores(), **_spark(), "postgres": _postgres(), **_airflow(environment)},
        "configs": {"spark-connect": {"content": settings.properties(_connect_settings())}},
        "volumes": {"s3-data": {}, "postgres-data": {}, "airflow-logs": {}},
    }


def _stores() -> Yaml:
    s3 = s3_service(SITE)
    bucket = Service(
        "s3-bucket",
        (SITE.python, "-c", _MAKE_BUCKET),
        settings.storage_options(SITE.addresses["s3"], S3_KEY, S3_SECRET),
        after=("s3",),
    )
    return {
        "s3": {
            **_of(s3, "s3"),
            "volumes": [f"s3-data:{SITE.data}"],
            "ports": [_published(SITE.addresses["s3"].port)],
        },
        "s3-bucket": _of(bucket, "s3"),
    }


def _spark() -> Yaml:
    master, *workers, connect = (service for service in spark_services(SITE))
    return {
        "spark-master": {
            **_of(master, "spark"),
            "ports": [_published(SITE.addresses["spark-master-page"].port)],
        },
        **{worker.name: _of(worker, "spark") for worker in workers},
        "spark-connect": {
            **_of(connect, "spark", after=("s3-bucket",)),
            "configs": [{"source": "spark-connect", "target": SITE.conf_file}],
            "ports": [_published(SITE.addresses["spark-connect"].port)],
        },
    }


def _postgres() -> Yaml:
    # While the image makes the database, its server listens on a socket of Unix only.
    ready = ["CMD", "pg_isready", "--host", _LOOPBACK, "--username", "airflow"]
    return {
        "image": "postgres:16",
        "environment": {
            "POSTGRES_USER": "airflow",
            "POSTGRES_DB": "airflow",
            "POSTGRES_PASSWORD": _POSTGRES_PASSWORD,
        },
        "volumes": ["postgres-data:/var/lib/postgresql/data"],
        "healthcheck": _health(ready),
        "restart": "unless-stopped",
    }


def _airflow(environment: Yaml) -> Yaml:
    page = f"http://{_LOOPBACK}:{_AIRFLOW_PORT}/api/v2/monitor/health"
    init, ready = "airflow-init", "airflow-api-server"

    def of(command: Sequence[str], after: Sequence[str], test: list[str] | None = None) -> Yaml:
        return {
            **_image("airflow"),
            "command": list(command),
            "environment": environment,
            "volumes": [
                f"${{DAGS_FOLDER:-../dags}}:{_AIRFLOW_HOME}/dags:ro",
                f"airflow-logs:{_AIRFLOW_HOME}/logs",
            ],
            **_lasting(test),
            "depends_on": _after(after),
        }

    def check(job_type: str) -> list[str]:
        return ["CMD", "airflow", "jobs", "check", "--job-type", job_type, "--local"]

    return {
        "airflow-init": of(("bash", "-c", _INIT), ["postgres"]),
        "airflow-api-server": {
            **of(("airflow", "api-server"), [init], _answers(page)),
            "ports": [_published(_AIRFLOW_PORT)],
        },
        "airflow-scheduler": of(
            ("airflow", "scheduler"),
            [init, ready, "s3-bucket", "spark-connect"],
            check("SchedulerJob"),
        ),
        "airflow-dag-processor": of(
            ("airflow", "dag-processor"), [init, "s3-bucket"], check("DagProcessorJob")
        ),
        "airflow-triggerer": of(
            ("airflow", "triggerer"), [init, ready, "s3-bucket"], check("TriggererJob")
        ),
    }


def _airflow_environment() -> Yaml:
    found = connections(
        SITE.addresses,
        S3_KEY,
        S3_SECRET,
        jars=[JARS],
        driver_host=_DRIVER_HOST,
        listen=SITE.listen,
    )
    database = f"airflow:{_POSTGRES_PASSWORD}@postgres:5432/airflow"
    return {
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": (
            f"http://airflow-api-server:{_AIRFLOW_PORT}/execution/"
        ),
        "AIRFLOW__CORE__FERNET_KEY": _from_env("AIRFLOW_FERNET_KEY"),
        "AIRFLOW__API__BASE_URL": f"http://{_LOOPBACK}:{_AIRFLOW_PORT}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": _from_env("AIRFLOW_SECRET_KEY"),
        "AIRFLOW__API_AUTH__JWT_SECRET": _from_env("AIRFLOW_JWT_SECRET"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
        **{variable(conn_id): json.dumps(item, indent=2) for conn_id, item in found.items()},
    }


def _connect_settings() -> dict[str, str]:
    addresses = SITE.addresses
    own = f"file://{SITE_PACKAGES}/airflow_provider_cdc/engine/log_store/{log_store.jar().name}"
    return {
        **settings.connect_settings(
            addresses["spark-master"],
            addresses["spark-connect"],
            SITE.listen,
            addresses["s3"],
            [JARS, own],
        ),
        **settings.s3a_secrets(S3_KEY, S3_SECRET),
    }


def _of(service: Service, target: str, after: Sequence[str] = ()) -> Yaml:
    return {
        **_image(target),
        "command": list(service.command),
        "environment": dict(service.environment),
        **_lasting(_check(service)),
        **_dependent([*service.after, *after]),
    }


def _image(target: str) -> Yaml:
    return {
        "image": f"cdc-{target}",
        "build": {"context": "..", "dockerfile": DOCKERFILE, "target": target},
        # The first process of a container has to reap the orphans that others leave.
        "init": True,
    }


def _check(service: Service) -> list[str] | None:
    if service.port is None:
        return None
    if service.page is None:
        # A server that is bound to its name does not listen on the loopback address.
        return ["CMD", "bash", "-c", f"< /dev/tcp/{SITE.host_of(service.name)}/{service.port}"]
    return _answers(f"http://{_LOOPBACK}:{service.port}{service.page}")


def _answers(page: str) -> list[str]:
    get = f"import urllib.request; urllib.request.urlopen('{page}', timeout=5)"
    return ["CMD", SITE.python, "-c", get]


def _lasting(test: list[str] | None) -> Yaml:
    """A service with a health check goes on, and one without ends."""
    if test is None:
        return {"restart": "no"}
    return {"healthcheck": _health(test), "restart": "unless-stopped"}


def _health(test: list[str]) -> Yaml:
    # Airflow's own command takes seconds of a processor, and other services do not wait for it.
    interval, start_interval = ("60s", "20s") if test[1] == "airflow" else ("15s", "3s")
    return {
        "test": test,
        "interval": interval,
        "timeout": "30s",
        "retries": 5,
        "start_period": "2m",
        "start_interval": start_interval,
    }


def _dependent(after: Sequence[str]) -> Yaml:
    return {"depends_on": _after(after)} if after else {}


def _after(names: Sequence[str]) -> Yaml:
    ended, ready = "service_completed_successfully", "service_healthy"
    return {name: {"condition": ended if name in ONE_SHOTS else ready} for name in names}


def _published(port: int) -> str:
    return f"{_LOOPBACK}:{port}:{port}"


class _Dumper(yaml.SafeDumper):
    """Names the one object that services share, and writes texts of many lines as lines."""

    def generate_anchor(self, node: yaml.Node) -> str:
        return "airflow-environment"

    def represent_lines(self, data: str) -> yaml.Node:
        style = "|" if "\n" in data else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_lines)
