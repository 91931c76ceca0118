"""The settings by which Spark, the engine and Airflow reach the services of the stack."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_cdc.engine import log_store
from airflow_provider_cdc.engine.core.requirements import DELTA_SETTINGS, LOCAL_SETTINGS

from .services import REGION, Address

BUCKET = "lake"
STATE = f"s3a://{BUCKET}/cdc"
# One partition for each core of an application.
_SMALL_TABLES = {**LOCAL_SETTINGS, "spark.sql.shuffle.partitions": "2"}
# Each application takes one core on each worker. Otherwise the first one would take all.
_SHARE = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.driver.memory": "1g",
}


def store_options(s3: Address) -> dict[str, str]:
    """Storage options of the engine for the S3 store, without the keys."""
    return {
        "AWS_ENDPOINT_URL": f"http://{s3}",
        "AWS_REGION": REGION,
        "AWS_ALLOW_HTTP": "true",
    }


def store_secrets(key: str, secret: str) -> dict[str, str]:
    """Storage options of the engine with the keys of the S3 store."""
    return {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}


def storage_options(s3: Address, key: str, secret: str) -> dict[str, str]:
    """Storage options of the engine for the S3 store, with the keys."""
    return {**store_options(s3), **store_secrets(key, secret)}


def s3a_settings(s3: Address) -> dict[str, str]:
    """Spark's settings for the S3 store, without the keys."""
    return {
        "spark.hadoop.fs.s3a.endpoint": f"http://{s3}",
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


def s3a_secrets(key: str, secret: str) -> dict[str, str]:
    """Spark's settings with the keys of the S3 store."""
    return {
        "spark.hadoop.fs.s3a.access.key": key,
        "spark.hadoop.fs.s3a.secret.key": secret,
    }


def cluster_settings(s3: Address) -> dict[str, str]:
    """Spark's settings of each application on the cluster, without keys, jars and addresses."""
    return {
        **DELTA_SETTINGS,
        **log_store.SETTINGS,
        **s3a_settings(s3),
        **_SMALL_TABLES,
        **_SHARE,
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
    }


def driver_settings(s3: Address, host: str, listen: str) -> dict[str, str]:
    """The settings of a driver whose executors are on the cluster, without keys and jars.

    :param host: by which the executors reach the driver
    :param listen: the address on which the driver listens
    """
    return {
        **cluster_settings(s3),
        "spark.driver.host": host,
        "spark.driver.bindAddress": listen,
    }


def connect_settings(
    master: Address, connect: Address, listen: str, s3: Address, jars: Sequence[str]
) -> dict[str, str]:
    """The settings of the Spark Connect server, without keys."""
    return {
        **driver_settings(s3, connect.host, listen),
        "spark.master": f"spark://{master}",
        "spark.jars": ",".join(jars),
        "spark.connect.grpc.binding.address": listen,
        "spark.connect.grpc.binding.port": str(connect.port),
        "spark.sql.warehouse.dir": f"s3a://{BUCKET}/warehouse",
    }


def properties(settings: dict[str, str]) -> str:
    """Settings as the text of a file for ``spark-submit --properties-file``."""
    return "".join(f"{name} {value}\n" for name, value in settings.items())
