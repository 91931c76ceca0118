"""Set figures of streams as Airflow metrics."""

from __future__ import annotations

from collections.abc import Mapping

from airflow.sdk.observability import stats


def measure(conn_id: str, stream: str, figures: Mapping[str, float]) -> None:
    """Set the gauges ``cdc.stream.<conn_id>.<stream>.<figure>``.

    :param conn_id: the connection of type ``cdc``
    :param stream: the name of the stream; characters that a metric cannot have are replaced
    :param figures: the values, by the names of the figures
    """
    name = stats.normalize_name_for_stats(f"{conn_id}.{stream}", log_warning=False)
    for figure, value in figures.items():
        stats.gauge(f"cdc.stream.{name}.{figure}", value)
