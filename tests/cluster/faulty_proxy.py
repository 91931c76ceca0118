"""A proxy between a driver and its S3 store that loses answers, fails, or is slow."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cdc_stack.services import Address

_COMMIT = re.compile(r"/_delta_log/\d{20}\.json$")
_SLOW_SECONDS = 2
_UNAVAILABLE = b"<Error><Code>ServiceUnavailable</Code><Message>faulty proxy</Message></Error>"
# Those that belong to one connection.
_OF_CONNECTION = {"connection", "transfer-encoding", "keep-alive"}


class Fault(StrEnum):
    """What happens to a request that writes a commit."""

    NONE = "none"
    LOST_ANSWER = "lost answer"
    """The store does the work, and the connection ends before its answer."""
    UNAVAILABLE = "unavailable"
    """The store answers 503, and does nothing."""
    SLOW = "slow"
    """The store answers after two seconds."""


@dataclass
class Proxy:
    """A running proxy.

    :param address: where it listens
    :param faults: the fault of each of the next writes of commits; later writes have none
    :param hides_commits: while true, a commit that is written gets no answer, and cannot be read
    """

    address: Address
    faults: list[Fault] = field(default_factory=list)
    hides_commits: bool = False
    seen: Counter[Fault] = field(default_factory=Counter)
    _hidden: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fault_of(self, method: str, path: str) -> Fault:
        """The fault of a request."""
        place = path.partition("?")[0]
        if not _COMMIT.search(place):
            return Fault.NONE
        with self._lock:
            if self.hides_commits and (method == "PUT" or place in self._hidden):
                self._hidden.add(place)
                fault = Fault.LOST_ANSWER
            elif method == "PUT" and self.faults:
                fault = self.faults.pop(0)
            else:
                return Fault.NONE
            self.seen[fault] += 1
            return fault


@contextmanager
def faulty_proxy(store: Address) -> Iterator[Proxy]:
    """Run a proxy before ``store``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = proxy.fault_of(self.command, self.path)
            if fault is Fault.UNAVAILABLE:
                self._answer(503, [("Content-Type", "application/xml")], _UNAVAILABLE)
                return
            connection = http.client.HTTPConnection(store.host, store.port, timeout=60)
            try:
                connection.request(self.command, self.path, body, dict(self.headers))
                response = connection.getresponse()
                content = response.read()
            finally:
                connection.close()
            if fault is Fault.LOST_ANSWER:
                self.close_connection = True
                return
            if fault is Fault.SLOW:
                time.sleep(_SLOW_SECONDS)
            self._answer(response.status, response.getheaders(), content)

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in _OF_CONNECTION:
                    self.send_header(name, value)
            if not any(name.lower() == "content-length" for name, _ in headers):
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on  # noqa: N815 - http.server's

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy = Proxy(Address("127.0.0.1", server.server_address[1]))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
