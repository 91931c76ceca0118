"""Put the jars of Delta on the class path of a driver in client mode.

The JVM keeps only classes from the class path in an archive (:mod:`.class_archive`), and the jars
of a submission are not on it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_provider_cdc.engine.core.requirements import DELTA_PACKAGE

from .connection import CdcConnection
from .driver_options import CLASS_PATH

# Ivy begins the name of a jar with the group of its artifact.
_DELTAS = "io.delta_"
_UNITY = "unitycatalog"


def class_path_settings(
    connection: CdcConnection, jars: Sequence[str], conf: Mapping[str, str]
) -> dict[str, str]:
    """The setting that puts ``jars`` on the class path, or nothing.

    The class path comes before the jars of Spark, so it gets only Delta's own jars, which replace
    no class of Spark. The other jars of the package hold older releases of libraries that Spark
    brings. A driver with Unity Catalog needs some of them, so it gets no class path. A class path
    of the user stays as it is.

    :param jars: URIs of the jars that Spark resolved for the connection
    :param conf: the settings of the job
    """
    is_default = connection.packages == DELTA_PACKAGE and connection.jars is None
    has_unity = any(_UNITY in value for value in conf.values())
    if not is_default or has_unity or CLASS_PATH in conf or _has_defaults():
        return {}
    paths = [unquote(urlsplit(jar).path) for jar in jars]
    deltas = [path for path in paths if Path(path).name.startswith(_DELTAS)]
    return {CLASS_PATH: os.pathsep.join(deltas)} if deltas else {}


def _has_defaults() -> bool:
    """Whether a file of the user may set a class path for all jobs of this machine."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (Path(home, "conf") if home else None)
    return folder is not None and Path(folder, "spark-defaults.conf").exists()
