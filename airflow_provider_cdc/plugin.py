"""The Airflow plugin of the provider. The provider metadata cannot list deadline references,
listeners and pages.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from . import preloading
from .deadlines.stale import StreamStaleDeadline
from .web.mounting import ApplicationOnDemand, external_views


class CdcPlugin(AirflowPlugin):
    """The deadline references, the listener and the page of streams of the provider."""

    name = "cdc"
    deadline_references: list[Any] = [StreamStaleDeadline]  # noqa: RUF012 - as Airflow declares it
    listeners: list[Any] = [preloading]  # noqa: RUF012
    fastapi_apps: Any = ApplicationOnDemand()
    external_views: list[Any] = external_views()
