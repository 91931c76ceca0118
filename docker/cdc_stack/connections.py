"""Airflow's connections to the services of the stack, as JSON objects of Airflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_cdc.engine import log_store

from . import settings
from .services import Address

Connection = dict[str, Any]


def connections(
    addresses: Mapping[str, Address],
    key: str,
    secret: str,
    *,
    state: str = settings.STATE,
    jars: Sequence[str],
    driver_host: str,
    listen: str,
) -> dict[str, Connection]:
    """The connections by their ids.

    Jobs of ``cdc_default`` run on the Spark Connect server. Those of ``cdc_cluster`` have a driver
    beside their task. Both have the same state folder.

    :param state: the state folder
    :param jars: URIs of the jars of Delta and of s3a, where tasks run
    :param driver_host: by which executors reach the drivers of tasks
    :param listen: the address on which these drivers listen
    """
    s3, connect, master = (addresses[name] for name in ("s3", "spark-connect", "spark-master"))
    of_both = {
        "state": state,
        "principal": "airflow",
        "storage_options": settings.store_options(s3),
        "secret_storage_options": settings.store_secrets(key, secret),
    }
    # Operators add the log store with its jar to a connection that does not name one.
    conf = settings.driver_settings(s3, driver_host, listen)
    of_drivers = {
        "jars": ",".join(jars),
        "conf": {name: value for name, value in conf.items() if name not in log_store.SETTINGS},
        "secret_conf": settings.s3a_secrets(key, secret),
    }
    return {
        "cdc_default": _cdc({"spark_conn_id": "spark_default", **of_both}),
        "spark_default": {
            "conn_type": "spark_connect",
            "host": connect.host,
            "port": connect.port,
        },
        "cdc_cluster": _cdc({"spark_conn_id": "spark_cluster", **of_both, **of_drivers}),
        "spark_cluster": {
            "conn_type": "spark",
            "host": f"spark://{master.host}",
            "port": master.port,
        },
    }


def variable(conn_id: str) -> str:
    """The name of the environment variable with the connection ``conn_id``."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def _cdc(extra: Connection) -> Connection:
    return {"conn_type": "cdc", "extra": extra}
