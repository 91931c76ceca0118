"""Where a user sets options of the JVM of a driver in client mode."""

from __future__ import annotations

import os
from collections.abc import Mapping

OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"
"""Environment variable: the options of the JVM that spark-submit starts."""

_VARIABLES = (OPTIONS_VARIABLE, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_SETTINGS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")


def driver_options(conf: Mapping[str, str]) -> str:
    """All options that this process and ``conf`` set, in one text."""
    given = [os.environ.get(name, "") for name in _VARIABLES]
    return " ".join(given + [conf.get(name, "") for name in _SETTINGS])
