"""Write the output of spark-submit to the log of a task.

The driver's records keep their levels. Output that needs no action is logged as DEBUG.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_cdc.engine.spark import session
from airflow_provider_cdc.jobs.driver_lines import RECORD

from .driver_options import OPTIONS_SETTINGS, OPTIONS_VARIABLE

LOG4J_FILE = Path(session.__file__).with_name("log4j2.properties")
"""The log4j file that limits the log of Spark's JVM to messages that need action."""

LOG4J_VARIABLE = "LOG4J_CONFIGURATION_FILE"
_COMMAND = "Spark-Submit cmd"
_LEVELS = {"WARN": logging.WARNING, "FATAL": logging.CRITICAL}
# Ivy begins and ends its report on jars with these lines.
_IVY_BEGINS = re.compile(r":: loading settings|Ivy Default Cache set to|The jars for the packages")
_IVY_ENDS = re.compile(r"\s*\d+ artifacts? copied")
_HARMLESS = re.compile(
    r"WARNING: (Using incubator modules|package sun\.security\.action not in)"
    r"|Using Spark's default log4j profile|Setting (default|Spark) log level to"
    r"|To adjust logging level use"
)
_FAILURE = re.compile(
    r"Exception in thread|Traceback \(most recent call last\)|Caused by:"
    r"|[\w.$]+(Error|Exception|Interrupt)(:|$)"
)


class DriverLog:
    """The logger of Airflow's hook for spark-submit. It logs each line that the hook reads.

    A record keeps its level. Ivy's report and banners are logged as DEBUG.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._line: str | None = None
        self._level = logging.INFO
        self._is_ivys = False

    def following(self, lines: Iterator[str]) -> Iterator[str]:
        """Yield ``lines``, and remember each one while the hook processes it."""
        for self._line in lines:
            yield self._line
        self._line = None

    def info(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a message of the hook. If it is the line of spark-submit that the hook processes, log
        that line at its own level.
        """
        if args or self._line is None or msg != self._line.strip():
            # The command contains the whole request, so it is logged as DEBUG only.
            level = logging.DEBUG if str(msg).startswith(_COMMAND) else logging.INFO
            self._logger.log(level, msg, *args, **kwargs)
            return
        line, self._line = self._line.rstrip(), None
        if line:
            level, text = self._read(line)
            self._logger.log(level, text)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the logger."""
        return getattr(self._logger, name)

    def _read(self, line: str) -> tuple[int, str]:
        if record := RECORD.fullmatch(line):
            self._is_ivys = False
            name = record["level"]
            self._level = _LEVELS.get(name) or logging.getLevelNamesMapping()[name]
            return self._level, record["text"]
        if _IVY_BEGINS.match(line):
            self._is_ivys = True
        elif self._is_ivys and _IVY_ENDS.match(line):
            self._is_ivys = False
            return logging.DEBUG, line
        if _FAILURE.match(line):
            self._is_ivys = False
            if self._level <= logging.INFO:
                self._level = logging.ERROR
            return self._level, line
        if self._is_ivys or _HARMLESS.match(line):
            return logging.DEBUG, line
        if not line[0].isspace():
            # An example is a print of a user's function.
            self._level = logging.INFO
        return self._level, line


class LoggedSubmitHook(SparkSubmitHook):
    """Airflow's hook for spark-submit, with a :class:`DriverLog` as its logger."""

    @cached_property
    def log(self) -> Any:
        """The logger."""
        return DriverLog(super().log)

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self.log.following(itr))


def log4j_environment(conf: Mapping[str, str], spark_folder: str | None) -> dict[str, str]:
    """The environment variable that names this package's log4j file to a driver on this machine.

    It is empty if the user named another file.

    :param conf: the settings of the job
    :param spark_folder: the folder of the Spark installation
    """
    folder = os.environ.get("SPARK_CONF_DIR") or f"{spark_folder}/conf"
    options = [os.environ.get(OPTIONS_VARIABLE, ""), *map(conf.get, OPTIONS_SETTINGS)]
    if (
        LOG4J_VARIABLE in os.environ
        or any(Path(folder).glob("log4j2*"))
        or any("log4j2.configurationFile" in (each or "") for each in options)
    ):
        return {}
    return {LOG4J_VARIABLE: str(LOG4J_FILE)}
