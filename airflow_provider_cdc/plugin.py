"""The Airflow plugin of the provider. The provider metadata cannot list deadline references and
listeners.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from . import preloading
from .deadlines.stale import StreamStaleDeadline


class CdcPlugin(AirflowPlugin):
    """The deadline references and the listener of the provider."""

    name = "cdc"
    deadline_references: list[Any] = [StreamStaleDeadline]  # noqa: RUF012 - as Airflow declares it
    listeners: list[Any] = [preloading]  # noqa: RUF012
