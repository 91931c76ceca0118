"""Finds and checks the releases of Spark, Delta and Java that are installed here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib import metadata

from ...core.errors import UnsupportedEnvironment
from ...core.requirements import DELTA, JAVA, SPARK, check_version

_JAVA_VERSION = re.compile(r'version "([^"]+)"')
_JAVA_SECONDS = 60


def spark_version() -> str | None:
    """The release of PySpark that this process imports; ``None``: there is no PySpark.

    A Spark distribution on the Python path is not an installed package, so the module itself
    reports its release.
    """
    try:
        import pyspark  # noqa: PLC0415 - it may be missing
    except ImportError:
        return None
    return str(pyspark.__version__)


def delta_version() -> str | None:
    """The release of Delta's Python package; ``None``: it is not installed."""
    try:
        return metadata.version("delta-spark")
    except metadata.PackageNotFoundError:
        return None


def check_installed() -> None:
    """Refuse a PySpark or a Delta that is too old.

    Delta's Python package may be missing: a session needs only Delta's jar.

    :raises UnsupportedEnvironment: names what is too old
    """
    fix = (
        "install airflow-provider-cdc into its own environment, with the releases that it requires"
    )
    check_version("Spark", spark_version(), SPARK, fix)
    if (found := delta_version()) is not None:
        check_version("Delta", found, DELTA, fix)


def check_java() -> None:
    """Refuse to start a JVM if Java is missing, or too old for Spark.

    :raises UnsupportedEnvironment: names Java, and the place that was searched
    """
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else "java"
    where = f"in JAVA_HOME, which is {home}" if home else "on the PATH, and JAVA_HOME is not set"
    fix = (
        f"install Java {JAVA[0]} or newer (on Debian the package openjdk-{JAVA[0]}-jre-headless),"
        " and put it on the PATH or name its folder in JAVA_HOME"
    )
    if shutil.which(command) is None:
        raise UnsupportedEnvironment(
            "airflow-provider-cdc",
            f"needs Java {JAVA[0]}, found none",
            cause=f"expected Java {JAVA[0]} or newer {where}",
            fix=fix,
        )
    check_version("Java", _version_of(command), JAVA, fix)


def _version_of(command: str) -> str | None:
    answer = subprocess.run(
        [command, "-version"], capture_output=True, text=True, check=False, timeout=_JAVA_SECONDS
    )
    found = _JAVA_VERSION.search(answer.stderr + answer.stdout)
    # Java 8 and older report a version such as 1.8.
    return found[1].removeprefix("1.") if found else None
