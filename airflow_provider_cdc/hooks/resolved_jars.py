"""Keep the jars that Spark resolved for packages, so that Ivy resolves them once and not per job.

A driver with packages writes the list of its jars to a file on the worker. If all of these jars
exist, later jobs of the worker name them and need no network.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

log = logging.getLogger(__name__)

# A version that may change is resolved for each job.
_FIXED = re.compile(r"[^:,\s]+:[^:,\s]+:(?!latest\.)[\w.+-]*[\w](?<!-SNAPSHOT)")
_OF_JARS = "spark.jars"


def worker_folder() -> Path:
    """The folder of what this worker keeps for later jobs, below ``AIRFLOW_HOME``."""
    return Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "cdc"


class ResolvedJars:
    """The jars of jobs with ``packages``, listed in a file below ``AIRFLOW_HOME``.

    :param packages: Maven coordinates, separated by commas
    :param repositories: further repositories to search, besides Maven Central
    :param jars: further jars
    :param conf: the settings of the job
    """

    def __init__(
        self, packages: str, repositories: str | None, jars: str | None, conf: Mapping[str, str]
    ) -> None:
        settings = {key: value for key, value in conf.items() if key.startswith(_OF_JARS)}
        known_by = json.dumps([packages, repositories, jars, settings, version("pyspark")])
        digest = sha256(known_by.encode()).hexdigest()[:16]
        self.file = worker_folder() / f"jars-{digest}.json"
        self.are_fixed = all(_FIXED.fullmatch(each.strip()) for each in packages.split(","))

    def read(self) -> tuple[str, ...]:
        """Return the URIs of the jars; empty if they are unknown, or if one of them is not a file
        on this machine.
        """
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        jars = tuple(map(str, found)) if isinstance(found, list) else ()
        return jars if all(map(_is_there, jars)) else ()

    def prepare(self) -> bool:
        """Create the folder in which a driver writes the file, and return whether it is
        writable.
        """
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
        return os.access(self.file.parent, os.W_OK)


def _is_there(jar: str) -> bool:
    parts = urlsplit(jar)
    return parts.scheme == "file" and Path(unquote(parts.path)).is_file()
