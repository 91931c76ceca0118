"""The metrics of streams by Airflow's OpenTelemetry client, at a receiver of its protocol."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.otel_logger import get_otel_logger
from opentelemetry import metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from airflow_provider_cdc.operators.metrics import Figure, measure


class Receiver(ThreadingHTTPServer):
    """A collector of OpenTelemetry on loopback, which keeps the gauges that it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gauges: dict[str, float] = {}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        content = self.rfile.read(int(self.headers["Content-Length"]))
        found = ExportMetricsServiceRequest.FromString(content)
        for resource in found.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    (point,) = metric.gauge.data_points
                    self.server.gauges[metric.name] = point.as_double or point.as_int
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep requests out of the log."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with Receiver() as found:
        endpoint = f"http://127.0.0.1:{found.server_port}/v1/metrics"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none")
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def _by_otel(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # At the end of the process there is no receiver any more.
    monkeypatch.setattr(atexit, "register", lambda *_, **__: None)
    stats.initialize(factory=get_otel_logger, export_legacy_names=False)
    yield
    # This is Airflow's own default.
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


@pytest.mark.usefixtures("_by_otel")
@pytest.mark.parametrize(
    ("stream", "name"),
    [("orders", "orders"), ("bad name ü/'1'", "bad_name____1_"), ("s" * 200, "s" * 200)],
    ids=["plain", "hostile", "long"],
)
def test_metrics_of_streams_reach_a_receiver_of_opentelemetry(
    receiver: Receiver, stream: str, name: str
) -> None:
    figures = {figure: float(value) for value, figure in enumerate(Figure, 1)}
    measure("cdc_default", stream, figures)
    provider = metrics.get_meter_provider()
    provider.shutdown()  # type: ignore[attr-defined]

    prefix = f"airflow.cdc.stream.cdc_default.{name}."
    assert receiver.gauges == {f"{prefix}{figure}": value for figure, value in figures.items()}
