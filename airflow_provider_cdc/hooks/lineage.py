"""OpenLineage: whether it is on, and the Spark settings that it adds to a submission."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow.providers.common.compat.openlineage.utils.spark import (
    inject_parent_job_information_into_spark_properties,
    inject_transport_information_into_spark_properties,
)
from airflow.sdk import conf as airflow_conf

if TYPE_CHECKING:
    from airflow.sdk import Context

_SECRET = re.compile(r"^spark[.]openlineage[.]transport[.](auth|headers)[.]")


def lineage_conf(context: Context | None) -> dict[str, str]:
    """OpenLineage's Spark settings for the task of ``context``, if Airflow adds any."""
    properties: dict[str, str] = {}
    if context is None:
        return properties
    if airflow_conf.getboolean("openlineage", "spark_inject_parent_job_info", fallback=False):
        properties = inject_parent_job_information_into_spark_properties(properties, context)
    if airflow_conf.getboolean("openlineage", "spark_inject_transport_info", fallback=False):
        properties = inject_transport_information_into_spark_properties(properties, context)
    return properties


def is_lineage_sent() -> bool:
    """Whether Airflow's OpenLineage provider is installed and sends events."""
    try:
        from airflow.providers.openlineage.conf import is_disabled  # noqa: PLC0415 - is optional

        return not is_disabled()
    except Exception:  # without the provider, or with a setting that it cannot read
        return False


def is_lineage_secret(setting: str) -> bool:
    """Whether a Spark setting of OpenLineage holds a secret."""
    return bool(_SECRET.search(setting))
