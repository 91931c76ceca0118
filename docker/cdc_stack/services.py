"""The services of the stack: what each one runs, and what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

REGION = "eu-central-1"
CONNECT_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
WORKERS = ("spark-worker-1", "spark-worker-2")
# More than there are processors: each application takes one on each worker, and holds it.
WORKER_CORES = 8
WORKER_MEMORY = "12g"
DAEMON_MEMORY = "256m"
# Spark gives this server the memory of a daemon, not that of a driver.
CONNECT_MEMORY = "1g"


@dataclass(frozen=True)
class Address:
    """Where other services reach a service."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Service:
    """One service of the stack.

    :param command: its program and arguments
    :param environment: variables in addition to those of the machine
    :param port: on which it listens; ``None``: it listens on none that others use
    :param page: the path of a page that answers once it serves; ``None``: it serves once it accepts
        connections
    :param after: the services that must be ready before it starts
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    page: str | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """Where the stack runs: the paths and addresses that differ between containers and processes.

    :param listen: the address on which services listen
    :param addresses: where each service is reached
    :param spark_home: the folder of Spark
    :param python: the Python interpreter with the packages of this project
    :param data: the folder of the services' own files
    :param conf_file: the file with the settings of the Spark Connect server
    :param java_options: further options of the JVMs of master and workers
    """

    listen: str
    addresses: Mapping[str, Address]
    spark_home: str
    python: str
    data: str
    conf_file: str
    java_options: str = ""

    def host_of(self, service: str) -> str:
        """The name by which others reach the host of ``service``."""
        return self.addresses[service].host


def s3_service(site: Site) -> Service:
    """The S3 store. Of five that were raced with conditional PUTs, this one never lets two succeed,
    and it keeps its objects if it is killed.
    """
    return Service(
        "s3",
        (site.python, "-m", "ministack"),
        {
            "BIND_HOST": site.listen,
            "GATEWAY_PORT": str(site.addresses["s3"].port),
            "MINISTACK_REGION": REGION,
            "S3_PERSIST": "1",
            "S3_DATA_DIR": f"{site.data}/s3",
            "LOG_LEVEL": "WARNING",
        },
        port=site.addresses["s3"].port,
        page="/_ministack/health",
    )


def spark_services(site: Site) -> tuple[Service, ...]:
    """Spark's master, two workers, and a Spark Connect server whose executors run on them."""
    master = site.addresses["spark-master"]
    environment = {
        "SPARK_HOME": site.spark_home,
        "SPARK_LOCAL_IP": site.listen,
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": site.java_options,
    }
    spark_class = f"{site.spark_home}/bin/spark-class"
    masters = Service(
        "spark-master",
        (
            spark_class,
            "org.apache.spark.deploy.master.Master",
            *("--host", site.host_of("spark-master")),
            *("--port", str(master.port)),
            *("--webui-port", str(site.addresses["spark-master-page"].port)),
        ),
        environment,
        port=master.port,
    )
    workers = tuple(
        Service(
            name,
            (
                spark_class,
                "org.apache.spark.deploy.worker.Worker",
                *("--host", site.host_of(name)),
                *("--port", str(site.addresses[name].port)),
                *("--webui-port", "0"),
                *("--cores", str(WORKER_CORES)),
                *("--memory", WORKER_MEMORY),
                *("--work-dir", f"{site.data}/{name}"),
                f"spark://{master}",
            ),
            environment,
            port=site.addresses[name].port,
            after=("spark-master",),
        )
        for name in WORKERS
    )
    connect = Service(
        "spark-connect",
        (
            f"{site.spark_home}/bin/spark-submit",
            *("--class", CONNECT_CLASS),
            *("--name", "spark-connect"),
            *("--properties-file", site.conf_file),
        ),
        {**environment, "SPARK_DAEMON_MEMORY": CONNECT_MEMORY},
        port=site.addresses["spark-connect"].port,
        after=("s3", *WORKERS),
    )
    return (masters, *workers, connect)
