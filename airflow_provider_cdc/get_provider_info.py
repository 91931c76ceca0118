"""The metadata of the provider, in the form that Airflow reads."""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Change data capture for Delta Lake"
# These are the panels of the form of a connection, in their order.
_COMMON = "State folder and Spark"
_STORE = "Store of the state folder"
_JOBS = "Spark jobs"


def get_provider_info() -> dict[str, Any]:
    """Return the metadata of the provider, as in Airflow's ``provider_info.schema.json``."""
    package = "airflow_provider_cdc"
    return {
        "package-name": "airflow-provider-cdc",
        "name": "Change data capture",
        "description": "Streams on Delta Lake tables: offsets, change sets and exactly-once"
        " consumption on Apache Spark.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://docs.delta.io/",
                "tags": ["software"],
            }
        ],
        "config": {
            "cdc": {
                "description": "Change data capture",
                "options": {
                    "preload": {
                        "description": "Whether a scheduler with the LocalExecutor and a"
                        " dag-processor import what tasks and files of DAGs need before they fork"
                        " processes for them.",
                        "version_added": None,
                        "type": "boolean",
                        "example": None,
                        "default": "True",
                    }
                },
            }
        },
        "operators": [
            _modules(
                f"{package}.operators.stream",
                f"{package}.operators.consumptions",
                f"{package}.operators.change_tracking",
                f"{package}.operators.archives",
                f"{package}.operators.history",
                f"{package}.operators.verification",
                f"{package}.operators.change_streams",
                f"{package}.operators.partitions",
                f"{package}.operators.stream_administration",
                f"{package}.operators.changes",
                f"{package}.operators.maintenance",
                f"{package}.operators.monitor",
                f"{package}.operators.upsert_tables",
                f"{package}.operators.upserts",
            )
        ],
        "sensors": [_modules(f"{package}.sensors.stream", f"{package}.sensors.change_streams")],
        "hooks": [_modules(f"{package}.hooks.cdc", f"{package}.hooks.stale_stream")],
        "triggers": [
            _modules(
                f"{package}.triggers.stream",
                f"{package}.triggers.change_streams",
                f"{package}.triggers.watcher",
            )
        ],
        "asset-uris": [
            {
                "schemes": ["cdc"],
                "handler": f"{package}.assets.uri.sanitize_uri",
                "factory": f"{package}.assets.stream.create_asset",
            }
        ],
        "extra-links": [f"{package}.operators.stream_link.StreamPageLink"],
        "notifications": [f"{package}.notifications.log.LogNotifier"],
        "cli": [f"{package}.cli.airflow_commands.get_commands"],
        "connection-types": [
            {
                "hook-class-name": f"{package}.hooks.cdc.CdcHook",
                "hook-name": "Change data capture",
                "connection-type": "cdc",
                "conn-fields": _CONNECTION_FIELDS,
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "schema", "login", "password", "port"],
                    "relabeling": {},
                    # Airflow shows placeholders only for its own fields.
                    "placeholders": {
                        "description": f"Only the state folder is needed: see {_COMMON} below",
                    },
                },
            }
        ],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": list(names)}


def _field(
    label: str, description: str, *, section: str | None = None, **schema: Any
) -> dict[str, Any]:
    """A field of the form, in the panel ``section``.

    Without a ``section``, the field is in Airflow's panel for further fields. This panel needs at
    least one field; otherwise Airflow shows no fields at all.
    """
    kind = schema.pop("type", "string")
    panel = {} if section is None else {"section": section}
    return {
        "label": label,
        "description": description,
        "schema": {"type": [kind, "null"], **panel, **schema},
    }


def _required(label: str, description: str, **schema: Any) -> dict[str, Any]:
    """A field that the form marks with a star and requires before it is saved."""
    field = _field(label, description, **schema)
    field["schema"]["type"] = "string"
    return field


_CONNECTION_FIELDS = {
    "state": _required(
        "State folder",
        "URI of the folder that holds registry, scratch and answers; workers and Spark reach it.",
        section=_COMMON,
        examples=["file:///data/cdc", "s3://bucket/cdc", "abfss://container@account/cdc"],
    ),
    "spark_conn_id": _field(
        "Spark connection",
        "Id of a connection of type spark (spark-submit) or spark_connect.",
        section=_COMMON,
        default="spark_default",
    ),
    "principal": _field(
        "Principal",
        "Who reads, consumes and owns streams with this connection; default: the process's user.",
        section=_COMMON,
    ),
    "storage_options": _field(
        "Storage options",
        "JSON object: how to reach the store of the state folder, such as"
        ' {"AWS_REGION": "eu-central-1"}. No secret here.',
        section=_STORE,
        type="object",
    ),
    "secret_storage_options": _field(
        "Secret storage options",
        "JSON object of storage options that the driver gets only in its environment; they win.",
        section=_STORE,
        format="password",
    ),
    "driver_memory": _field(
        "Driver memory", "Memory of the driver, such as 2g.", section=_JOBS, examples=["2g", "4g"]
    ),
    "executor_memory": _field(
        "Executor memory",
        "Memory of each executor, such as 4g.",
        section=_JOBS,
        examples=["4g", "8g"],
    ),
    "executor_cores": _field(
        "Executor cores", "Cores of each executor.", section=_JOBS, type="integer"
    ),
    "num_executors": _field("Executors", "Number of executors.", section=_JOBS, type="integer"),
    "conf": _field(
        "Spark settings",
        "JSON object of Spark settings that override the provider's defaults. No secret here.",
        section=_JOBS,
        type="object",
    ),
    "secret_conf": _field(
        "Secret Spark settings",
        "JSON object of Spark settings that the driver gets only in its environment.",
        section=_JOBS,
        format="password",
    ),
    "pool_conf": _field(
        "Spark settings by pool",
        "JSON object: for each Airflow pool, the Spark settings of the jobs that its tasks submit,"
        ' such as {"cdc_background": {"spark.cores.max": "4"}}. No secret here.',
        section=_JOBS,
        type="object",
    ),
    "packages": _field(
        "Packages",
        "Maven coordinates of Delta; default: the supported release. A worker asks Maven for them"
        " once.",
        section=_JOBS,
    ),
    "jars": _field(
        "Jars",
        "Jars of Delta, instead of packages, separated by commas; nothing is downloaded.",
        section=_JOBS,
        examples=["/opt/delta/delta-spark_4.2_2.13-4.4.0.jar"],
    ),
    "repositories": _field(
        "Repositories", "Further Maven repositories to look for packages in.", section=_JOBS
    ),
    "archives": _field(
        "Archives",
        "Cluster mode: a packed environment with the engine, such as cdc.tar.gz#environment.",
    ),
    "py_files": _field("Python files", "Cluster mode: Python files or archives for the driver."),
    "driver_python": _field(
        "Driver's Python",
        "Python of the driver, such as ./environment/bin/python; client mode uses the worker's.",
    ),
    "entry_point": _field(
        "Entry point",
        "Cluster mode: path of the job's script in the image, such as local:///app/entry_point.py.",
    ),
}
