"""What the engine needs of Spark, Delta and Java, and the errors if it is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .errors import UnsupportedEnvironment

SPARK = (4, 2)
DELTA = (4, 4)
JAVA = (17,)

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
"""The Maven coordinates of the Delta release that the engine is written for."""

EXTENSIONS, CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
DELTA_SETTINGS = {
    EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
    CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""The settings that add Delta to a session."""

LOCAL_SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.openCostInBytes": "65536",
}
"""Settings of a session in one process. Many small tasks cost more than they save there."""

# The values that the setting has if it is not set.
_NO_CATALOG = ("", "builtin")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def check_version(product: str, found: str | None, needed: tuple[int, ...], fix: str) -> None:
    """Refuse a version that is older than the engine needs.

    :param found: such as ``3.5.3``; ``None``: the product is missing
    :raises UnsupportedEnvironment: the version is too old, or missing; the message names the
        product and both versions
    """
    numbers = _NUMBERS.search(found or "")
    version = tuple(map(int, numbers[0].split("."))) if numbers else ()
    if version[: len(needed)] < needed:
        least = ".".join(map(str, needed))
        raise UnsupportedEnvironment(
            "airflow-provider-cdc",
            f"needs {product} {least}, found {found or 'none'}",
            cause="older releases do not have the features that the engine uses"
            if found
            else "none is installed here",
            fix=fix,
        )


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse a session that was made without Delta.

    :param settings: the session's values of ``DELTA_SETTINGS``
    :raises UnsupportedEnvironment: Delta is missing; the message names the settings
    """
    has_extension = "delta" in settings.get(EXTENSIONS, "").lower()
    has_catalog = settings.get(CATALOG, "") not in _NO_CATALOG
    missing = [
        name for name, there in ((EXTENSIONS, has_extension), (CATALOG, has_catalog)) if not there
    ]
    if missing:
        raise UnsupportedEnvironment(
            "Spark session",
            "does not have the settings of Delta",
            cause=f"expected {' and '.join(missing)} to name Delta, found "
            + " and ".join(repr(settings.get(name, "")) for name in missing),
            fix="make the session with airflow_provider_cdc.engine.local_session(), or set "
            + " and ".join(f"{name}={DELTA_SETTINGS[name]}" for name in missing)
            + " before it starts",
        )
