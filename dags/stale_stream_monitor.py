"""Monitor the streams of ``cdc_default`` and keep them from going stale.

A run every five minutes sends one alert for each stream that is about to go stale, is stale, lags
beyond its ``max_lag``, or has recovered. Here alerts go to the task's log: use the notifiers of
Slack, PagerDuty or mail instead. Once a day the retention of sources is extended if streams need
it.
"""

from __future__ import annotations

from airflow_provider_cdc.dag_factories.monitor import stale_stream_monitor, stream_maintenance
from airflow_provider_cdc.notifications.log import LogNotifier

monitor = stale_stream_monitor([LogNotifier()])
maintenance = stream_maintenance()
