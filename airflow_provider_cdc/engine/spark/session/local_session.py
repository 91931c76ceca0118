"""A Spark session for a notebook or a script on one machine, with the settings of the engine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from ... import log_store
from ...core.requirements import DELTA_PACKAGE, DELTA_SETTINGS, LOCAL_SETTINGS
from .installed import check_java

_PACKAGES, _JARS, _IVY = "spark.jars.packages", "spark.jars", "spark.jars.ivy"
_LOOPBACK = "127.0.0.1"
# The parent of the loggers of all modules.
_LOGGER = __name__.partition(".")[0]
# The folder where Spark's Ivy keeps fetched jars, and the jars that Delta needs.
_IVY_FOLDER = "~/.ivy2.5.2"
_DELTA_JARS = (
    "io.delta_delta-spark_{line}-{version}.jar",
    "io.delta_delta-storage-{version}.jar",
)
_VARIABLES = {
    # Without this, Spark looks up its address, and warns if that is loopback.
    "SPARK_LOCAL_IP": _LOOPBACK,
    # Without this, Spark reports which configuration it takes.
    "LOG4J_CONFIGURATION_FILE": str(Path(__file__).with_name("log4j2.properties")),
}
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
}


def local_session(
    app_name: str = "cdc", *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session in this process, with Delta and with few partitions, as small tables need.

    The session has no web page, no open port except on loopback, and only errors in Spark's log.
    With Spark's own settings a statement on a small table takes tens of seconds. If this process
    already has a session, the call returns that session, with those of the settings that a running
    session accepts. The first call fetches Delta's jars from a Maven repository, once for each
    user.

    Consumptions log to standard error, unless this process has already set up Python's ``logging``.

    :param app_name: the name of the application
    :param master: ``local[4]`` for four tasks at once; by default one task for each processor
    :param settings: further settings of Spark; they win over those of this function
    :raises UnsupportedEnvironment: Java 17 or newer is missing
    """
    if SparkSession.getActiveSession() is None:
        check_java()
    given = dict(settings or {})
    wanted = {**DELTA_SETTINGS, **LOCAL_SETTINGS, **_QUIET, **given}
    if not {_PACKAGES, _JARS} & given.keys():
        wanted |= _delta(wanted.get(_IVY, _IVY_FOLDER))
    if stores := log_store.default_settings(given):
        jars = filter(None, (wanted.get(_JARS), log_store.jar().as_uri()))
        wanted |= {**stores, _JARS: ",".join(jars)}
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    show_log_lines()
    with _environment():
        return builder.getOrCreate()


def show_log_lines() -> None:
    """Show what the engine logs on standard error, unless a handler of this process gets it."""
    logger = logging.getLogger(_LOGGER)
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    # A root handler that is set up later would show each line again.
    logger.propagate = False


@contextmanager
def _environment() -> Iterator[None]:
    """Set variables for the JVM that is started. Other child processes do not get them."""
    added = {name: value for name, value in _VARIABLES.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def delta_jars(ivy: str = _IVY_FOLDER) -> list[Path]:
    """The jars that Delta needs, where Spark keeps them after it has fetched them.

    :param ivy: the folder of Spark's Ivy
    """
    _, line, version = DELTA_PACKAGE.replace("delta-spark_", "").split(":")
    folder = Path(ivy).expanduser() / "jars"
    return [folder / name.format(line=line, version=version) for name in _DELTA_JARS]


def _delta(ivy: str) -> dict[str, str]:
    """The setting by which the session gets Delta. If Spark has fetched Delta's jars before, it
    names these jars, which saves seconds and pages of Ivy's report. Otherwise it names Delta's
    Maven coordinates.
    """
    jars = delta_jars(ivy)
    if all(jar.exists() for jar in jars):
        return {_JARS: ",".join(jar.as_uri() for jar in jars)}
    return {_PACKAGES: DELTA_PACKAGE}
