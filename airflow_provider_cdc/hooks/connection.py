"""The fields of a connection of type ``cdc``, parsed and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.catalog.log_glances import LogGlances
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.requirements import DELTA_PACKAGE, LOCAL_SETTINGS
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.apply_times import ApplyTimes
from airflow_provider_cdc.jobs.entry_point import DELTA_CONF

DEFAULT_CONF = {**DELTA_CONF, "spark.log.level": "WARN"}
"""Spark settings of every job that is submitted."""

LOCAL_CONF = LOCAL_SETTINGS
"""Spark settings of jobs that run in one process. In one process, many small tasks cost more than
they save. A cluster has its own settings.
"""

# spark-submit gets these fields unchanged.
_ARGUMENTS = ("jars", "packages", "archives", "py_files", "driver_python", "entry_point")
_SECRET = r"secret|password|passphrase|token|(access|account|private|api)[._-]?key|(^|[._])sas[._]"
# The pattern covers the names that Spark redacts in its web pages, and the keys of stores and
# services. A Kubernetes setting only names a secret.
_WITH_USER = re.compile(r"://[^/\s,]*@")
# A container may come before the @ of a store's address, as in abfss://container@account.
_WITH_PASSWORD = re.compile(r"://[^/\s,@:]*:[^/\s,@]*@")
_SECRET_SETTING = re.compile(
    rf"^(?!spark[.]kubernetes[.]).*({_SECRET}|[.]credentials?$|headers[.]authorization)",
    re.IGNORECASE,
)
# In s3fs, ``key`` is the id of an access key. The name of a file or a path is not a secret.
_SECRET_OPTION = re.compile(
    rf"^(?!.*_(file|path)$).*({_SECRET}|^key$|(customer|master)_key|connection_string|(^|_)credential$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CdcConnection:
    """The settings of a ``cdc`` connection. All of them are fields of its extra.

    ``state`` is the folder of the registry, scratch files and answers. ``storage_options`` are the
    options to access its store. ``secret_storage_options`` are the options that hold secrets, and
    override the others. ``secret_conf`` are Spark settings that hold secrets. All three reach the
    driver only through its environment. ``packages`` and ``jars`` provide Delta. If only ``jars``
    is set, no package is fetched. ``archives``, ``py_files``, ``driver_python`` and ``entry_point``
    provide the engine to a driver in cluster mode. In client mode the driver runs in the
    environment of the worker. ``principal`` is the principal that reads, consumes and owns streams;
    ``None``: the user of the worker and the driver. ``pool_conf`` maps the name of an Airflow pool
    to Spark settings of the jobs that its tasks submit.
    """

    conn_id: str
    state: str
    spark_conn_id: str = "spark_default"
    storage_options: Mapping[str, str] = field(default_factory=dict)
    secret_storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict)
    secret_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    packages: str | None = DELTA_PACKAGE
    jars: str | None = None
    repositories: str | None = None
    driver_memory: str | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    num_executors: int | None = None
    archives: str | None = None
    py_files: str | None = None
    driver_python: str | None = None
    entry_point: str | None = None
    principal: str | None = None
    pool_conf: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def from_extra(cls, conn_id: str, extra: Mapping[str, Any]) -> CdcConnection:
        """Parse the extra of the connection ``conn_id``. JSON fields may be objects or strings.

        :raises InvalidRequest: there is no state folder, a field is malformed, or a secret would
            show as a Spark setting on a command line or as a storage option in Airflow
        """
        present = {key: value for key, value in extra.items() if value not in (None, "")}
        if not present.get("state"):
            raise InvalidRequest(
                f"connection {conn_id}",
                "has no state folder",
                cause="its required field, State folder (state in its extra), is empty",
                fix="set it to a folder that workers and Spark can reach, such as file:///data/cdc",
            )
        jars = _text(present, "jars")
        _refuse_passwords(conn_id, {name: _text(present, name) for name in _ARGUMENTS})
        conf = _mapping(conn_id, present, "conf")
        _refuse_secret_settings(conn_id, conf)
        options = _mapping(conn_id, present, "storage_options")
        _refuse_secret_options(conn_id, options)
        return cls(
            conn_id=conn_id,
            state=str(present["state"]),
            spark_conn_id=_text(present, "spark_conn_id") or "spark_default",
            storage_options=options,
            secret_storage_options=_mapping(conn_id, present, "secret_storage_options"),
            conf=conf,
            secret_conf=_mapping(conn_id, present, "secret_conf"),
            packages=_text(present, "packages") or (None if jars else DELTA_PACKAGE),
            jars=jars,
            repositories=_repositories(conn_id, present),
            driver_memory=_text(present, "driver_memory"),
            executor_memory=_text(present, "executor_memory"),
            executor_cores=_number(conn_id, present, "executor_cores"),
            num_executors=_number(conn_id, present, "num_executors"),
            archives=_text(present, "archives"),
            py_files=_text(present, "py_files"),
            driver_python=_text(present, "driver_python"),
            entry_point=_text(present, "entry_point"),
            principal=_text(present, "principal"),
            pool_conf=_pools(conn_id, present),
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not show in a log."""
        return (*self.secret_storage_options.values(), *self.secret_conf.values())

    @property
    def store_options(self) -> dict[str, str]:
        """All storage options, including those that hold secrets."""
        return {**self.storage_options, **self.secret_storage_options}

    def catalog(self) -> StreamCatalog:
        """The stream registry of the state folder, read and written without a JVM."""
        return StreamCatalog(
            self.state, storage_options=self.store_options, principal=self.principal
        )

    def log_glances(self) -> LogGlances:
        """Glances at the logs of the registry and of the sources of its streams."""
        return LogGlances(self.state, storage_options=self.store_options)

    def change_streams(self) -> ChangeStreamCatalog:
        """The change streams of the state folder, read and handed out without a JVM."""
        return ChangeStreamCatalog(self.state, storage_options=self.store_options)

    def apply_times(self) -> ApplyTimes:
        """How long recent applies of each upsert table took."""
        return ApplyTimes(self.state, Files(self.store_options), utc_now)


def is_secret(setting: str) -> bool:
    """Whether the name of a Spark setting shows that it holds a secret."""
    return bool(_SECRET_SETTING.search(setting))


def _text(extra: Mapping[str, Any], name: str) -> str | None:
    value = extra.get(name)
    return None if value is None else str(value)


def _number(conn_id: str, extra: Mapping[str, Any], name: str) -> int | None:
    value = extra.get(name)
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        raise _malformed(conn_id, name, "a whole number") from None


def _mapping(conn_id: str, extra: Mapping[str, Any], name: str) -> dict[str, str]:
    return {key: _setting(item) for key, item in _object(conn_id, extra, name).items()}


def _pools(conn_id: str, extra: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    pools = _object(conn_id, extra, "pool_conf")
    found = {
        pool: _mapping(conn_id, {"pool_conf": conf}, "pool_conf") for pool, conf in pools.items()
    }
    for conf in found.values():
        _refuse_secret_settings(conn_id, conf)
    return found


def _object(conn_id: str, extra: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = extra.get(name, {})
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            value = None
    if not isinstance(value, Mapping):
        raise _malformed(conn_id, name, "a JSON object")
    return {str(key): item for key, item in value.items()}


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _malformed(conn_id: str, name: str, expected: str) -> InvalidRequest:
    return InvalidRequest(
        f"connection {conn_id}",
        f"has a malformed field {name}",
        cause=f"expected {expected}",
        fix=f"correct {name} in the connection's extra",
    )


def _repositories(conn_id: str, present: Mapping[str, Any]) -> str | None:
    """The repositories for spark-submit. They are an argument, so they show in the process list and
    in the log of the task.
    """
    given = _text(present, "repositories")
    if given is not None and _WITH_USER.search(given):
        raise InvalidRequest(
            f"connection {conn_id}",
            "names a repository with a user or a password",
            cause="expected an address without them: spark-submit's arguments show in logs",
            fix="put them into an Ivy settings file, and name it in the field conf as"
            " spark.jars.ivySettings",
        )
    return given


def _refuse_secret_settings(conn_id: str, conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        has_password = _WITH_PASSWORD.search(value)
        if not (is_secret(key) or has_password):
            continue
        reason = "has a password in an address" if has_password else "is named like a secret"
        raise InvalidRequest(
            f"connection {conn_id}",
            f"would show the Spark setting {key} on a command line",
            cause=f"it {reason}, and Spark gets the field conf as arguments",
            fix="move it to the field secret_conf",
        )


def _refuse_passwords(conn_id: str, arguments: Mapping[str, str | None]) -> None:
    for name, value in arguments.items():
        if value is not None and _WITH_PASSWORD.search(value):
            raise InvalidRequest(
                f"connection {conn_id}",
                f"names an address with a user and a password in its field {name}",
                cause="spark-submit's arguments show in logs and in the list of processes",
                fix="put the file where it needs no password, or into a store whose keys are in the"
                " field secret_conf",
            )


def _refuse_secret_options(conn_id: str, options: Mapping[str, str]) -> None:
    for key in filter(_SECRET_OPTION.search, options):
        raise InvalidRequest(
            f"connection {conn_id}",
            f"would show the storage option {key}",
            cause="its name says that it holds a secret, and Airflow shows the field"
            " storage_options to everyone who may read connections",
            fix="move it to the field secret_storage_options",
        )
