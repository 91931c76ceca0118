"""The Airflow of the demo and of tests, as far as it needs no Airflow."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from flights_demo import airflow_server
from flights_demo.airflow_server import AirflowServer, AirflowServerError


class Busy(BaseHTTPRequestHandler):
    """Leaves the first request unanswered, and then reports a running task."""

    requests = 0
    is_over = threading.Event()

    def do_GET(self) -> None:
        Busy.requests += 1
        if Busy.requests == 1:
            self.is_over.wait(30)
            return
        body = json.dumps({"state": "running"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AirflowServer]:
    monkeypatch.setattr(airflow_server, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(airflow_server, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(Busy, "requests", 0)
    monkeypatch.setattr(Busy, "is_over", threading.Event())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield AirflowServer(tmp_path, tmp_path, server.server_address[1])
    finally:
        Busy.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_wait_asks_again_if_a_busy_server_does_not_answer(busy: AirflowServer) -> None:
    busy.wait_task("a_dag", "a_run", "a_task", "running", timeout_seconds=20)
    assert Busy.requests == 2


def test_wait_ends_with_an_error_after_its_time(busy: AirflowServer) -> None:
    with pytest.raises(AirflowServerError, match=r"is not success after 0\.5 s"):
        busy.wait_task("a_dag", "a_run", "a_task", "success", timeout_seconds=0.5)
