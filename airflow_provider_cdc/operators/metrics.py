"""Set figures of streams as Airflow metrics."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from airflow.sdk.observability import stats

PREFIX = "cdc.stream"
"""The beginning of the names of all metrics of streams."""


class Figure(StrEnum):
    """What is measured of a stream, by the last part of the metric's name."""

    LAG_SECONDS = "lag_seconds"
    LAG_COMMITS = "lag_commits"
    HAS_DATA = "has_data"
    STALE_IN_SECONDS = "stale_in_seconds"
    HELD_CHANGES = "held_changes"
    LATE_CHANGES = "late_changes"


def measure(conn_id: str, stream: str, figures: Mapping[Figure, float]) -> None:
    """Set the gauges ``cdc.stream.<conn_id>.<stream>.<figure>``.

    :param conn_id: the connection of type ``cdc``
    :param stream: the name of the stream; characters that a metric cannot have are replaced
    :param figures: the values of the figures
    """
    name = stats.normalize_name_for_stats(f"{conn_id}.{stream}", log_warning=False)
    for figure, value in figures.items():
        stats.gauge(f"{PREFIX}.{name}.{figure.value}", value)
