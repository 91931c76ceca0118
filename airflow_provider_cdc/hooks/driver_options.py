"""Where a user sets options of the JVM of a driver in client mode."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"
"""Environment variable: the options of the JVM that spark-submit starts."""

CLASS_PATH = "spark.driver.extraClassPath"
"""The setting for jars that come before those of Spark."""

OPTIONS_SETTINGS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
"""The settings that hold options of the JVM."""

_VARIABLES = (OPTIONS_VARIABLE, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")


def has_option(conf: Mapping[str, str], words: Collection[str]) -> bool:
    """Whether this process or ``conf`` sets an option that holds one of ``words``."""
    given = [os.environ.get(name, "") for name in _VARIABLES]
    given += [conf.get(name, "") for name in OPTIONS_SETTINGS]
    return any(word in text for text in given for word in words)
