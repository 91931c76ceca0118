"""The log store with which several drivers can write Delta tables on S3.

Delta's own log store for S3 separates only the drivers of one JVM. The class in the jar of this
package writes each version of a log by a conditional PUT, which S3 refuses if the version exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CLASS = "airflowprovidercdc.ConditionalPutLogStore"
"""The Java class of the log store. Its source is next to this file."""

SETTINGS = {"spark.delta.logStore.s3a.impl": CLASS}
"""The settings with which Delta writes logs on ``s3a://`` through it, for the start of a session
that has the jar. ``s3://`` is left out, because a platform may have its own file system there.
"""

_SETTING_PREFIXES = ("spark.delta.logStore.", "delta.logStore.")


def jar() -> Path:
    """The jar with the log store, for ``spark.jars`` or ``--jars``."""
    return Path(__file__).with_name("cdc-log-store.jar")


def default_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """:data:`SETTINGS`, or nothing if ``conf`` chooses the log stores itself.

    :param conf: the Spark settings that a user gave
    """
    return {} if any(name.startswith(_SETTING_PREFIXES) for name in conf) else dict(SETTINGS)
