"""The stack on this machine: its files, its addresses, and what a client of it needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pyspark

from airflow_provider_cdc.engine import log_store
from airflow_provider_cdc.engine.spark.session.local_session import delta_jars
from airflow_provider_cdc.engine.storage.files.store_options import fsspec_options

from . import settings
from .connections import Connection, connections
from .processes import LOOPBACK, Processes, free_ports
from .services import WORKERS, Address, Site, s3_service, spark_services

KEY, SECRET = "stack-key", "stack-secret"
_PORTS = ("s3", "spark-master", "spark-master-page", *WORKERS, "spark-connect")
_PRIVATE = 0o600
# Processes that run for minutes: the JVM's second compiler would cost more than it saves.
_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_JVMS = {
    "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
}


@dataclass(frozen=True)
class LocalStack:
    """A running stack.

    :param folder: with the files of the services and their logs
    """

    folder: Path
    site: Site
    processes: Processes

    @property
    def s3(self) -> Address:
        """Where the S3 store is reached."""
        return self.site.addresses["s3"]

    @property
    def master(self) -> str:
        """The URL of Spark's master."""
        return f"spark://{self.site.addresses['spark-master']}"

    @property
    def master_page(self) -> str:
        """The web page of Spark's master."""
        return f"http://{self.site.addresses['spark-master-page']}"

    @property
    def connect_url(self) -> str:
        """The URL of the Spark Connect server."""
        return f"sc://{self.site.addresses['spark-connect']}"

    @property
    def storage_options(self) -> dict[str, str]:
        """Storage options of the engine for the S3 store, with the keys."""
        return settings.storage_options(self.s3, KEY, SECRET)

    def driver_settings(self, s3: Address | None = None) -> dict[str, str]:
        """The settings of a driver on this machine with executors on the cluster, with the keys.

        :param s3: where the driver reaches the S3 store, if not directly
        """
        return {
            **settings.driver_settings(s3 or self.s3, LOOPBACK, LOOPBACK),
            **settings.s3a_secrets(KEY, SECRET),
            **_JVMS,
            "spark.jars": ",".join(spark_jars()),
        }

    def connections(self, state: str = settings.STATE) -> dict[str, Connection]:
        """Airflow's connections by their ids, for tasks on this machine, with the keys.

        :param state: the state folder
        """
        return connections(
            self.site.addresses,
            KEY,
            SECRET,
            state=state,
            jars=spark_jars(),
            driver_host=LOOPBACK,
            listen=LOOPBACK,
        )

    def make_bucket(self) -> None:
        """Create the bucket of state folder and tables, if it does not exist."""
        options = fsspec_options(self.storage_options, "s3")
        fsspec.filesystem("s3", **options).makedirs(settings.BUCKET, exist_ok=True)


def spark_jars() -> tuple[str, ...]:
    """The URIs of the jars of Delta, of s3a and of the log store.

    :raises FileNotFoundError: they were not fetched
    """
    s3a = Path(sys.prefix) / "s3a"
    found = [*delta_jars(), *sorted(s3a.glob("*.jar"))]
    if not s3a.is_dir() or not all(jar.exists() for jar in found):
        raise FileNotFoundError("jars of Spark are missing: run make cluster-jars")
    return tuple(jar.as_uri() for jar in [*found, log_store.jar()])


@contextmanager
def local_stack(folder: Path, *, spark: bool = True) -> Iterator[LocalStack]:
    """Run the S3 store and, if ``spark``, Spark's services as long as the context lasts."""
    ports = free_ports(_PORTS)
    conf = folder / "spark-connect.conf"
    site = Site(
        listen=LOOPBACK,
        addresses={name: Address(LOOPBACK, port) for name, port in ports.items()},
        spark_home=str(Path(pyspark.__file__).parent),
        python=sys.executable,
        data=str(folder),
        conf_file=str(conf),
        java_options=_JAVA_OPTIONS,
    )
    stack = LocalStack(folder, site, Processes(folder / "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        stack.processes.start(s3_service(site))
        stack.make_bucket()
        if spark:
            # The keys are in the file, not on a command line.
            conf.touch(mode=_PRIVATE)
            conf.write_text(settings.properties(_connect_settings(stack)))
            for service in spark_services(site):
                stack.processes.start(service)
        yield stack
    finally:
        stack.processes.stop()


def _connect_settings(stack: LocalStack) -> dict[str, str]:
    addresses = stack.site.addresses
    return {
        **settings.connect_settings(
            addresses["spark-master"], addresses["spark-connect"], LOOPBACK, stack.s3, spark_jars()
        ),
        **settings.s3a_secrets(KEY, SECRET),
        **_JVMS,
    }
