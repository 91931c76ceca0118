"""Airflow's connections to the services of the stack, as JSON objects of Airflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import settings
from .services import Address

Connection = dict[str, Any]


def spark_connect(connect: Address) -> Connection:
    """The connection to the Spark Connect server."""
    return {"conn_type": "spark_connect", "host": connect.host, "port": connect.port}


def spark_cluster(master: Address) -> Connection:
    """The connection to Spark's master, for ``spark-submit``."""
    return {"conn_type": "spark", "host": f"spark://{master.host}", "port": master.port}


def cdc_over_connect(s3: Address, key: str, secret: str, spark_conn_id: str) -> Connection:
    """The connection to the state folder, for jobs on the Spark Connect server.

    :param spark_conn_id: the id of the connection that :func:`spark_connect` describes
    """
    return {"conn_type": "cdc", "extra": _extra(s3, key, secret, spark_conn_id)}


def cdc_over_cluster(
    s3: Address,
    key: str,
    secret: str,
    spark_conn_id: str,
    jars: Sequence[str],
    host: str,
    listen: str,
) -> Connection:
    """The connection to the same state folder, for jobs whose driver is a process of their task.

    :param spark_conn_id: the id of the connection that :func:`spark_cluster` describes
    :param jars: URIs of the jars of Delta and of s3a, where the task runs
    :param host: by which the executors reach the driver
    :param listen: the address on which the driver listens
    """
    extra = {
        **_extra(s3, key, secret, spark_conn_id),
        "jars": ",".join(jars),
        "conf": settings.driver_settings(s3, host, listen),
        "secret_conf": settings.s3a_secrets(key, secret),
    }
    return {"conn_type": "cdc", "extra": extra}


def _extra(s3: Address, key: str, secret: str, spark_conn_id: str) -> Connection:
    return {
        "state": settings.STATE,
        "spark_conn_id": spark_conn_id,
        "principal": "airflow",
        "storage_options": settings.store_options(s3),
        "secret_storage_options": settings.store_secrets(key, secret),
    }
