"""The services of the stack as processes of this machine, on loopback and on free ports."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from .services import Service

LOOPBACK = "127.0.0.1"
_START_SECONDS = 120
_STOP_SECONDS = 10
_POLL_SECONDS = 0.1


class StackError(RuntimeError):
    """A service ended, or does not serve; the message ends with its last lines."""


def free_ports(names: Collection[str]) -> dict[str, int]:
    """A loopback port for each name, on which nothing listens at the moment."""
    listeners = {name: socket.socket() for name in names}
    try:
        for listener in listeners.values():
            listener.bind((LOOPBACK, 0))
        return {name: listener.getsockname()[1] for name, listener in listeners.items()}
    finally:
        for listener in listeners.values():
            listener.close()


@dataclass
class Processes:
    """Runs services, each as a process in a session of its own.

    Stopping a service also ends what it started, such as the executors of a worker.

    :param logs: the folder for the output of each service
    """

    logs: Path
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)
    _services: dict[str, Service] = field(default_factory=dict, init=False)

    def start(self, service: Service) -> None:
        """Start ``service``, and wait until it serves.

        :raises StackError: it ended, or it does not serve after two minutes
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        self._services[service.name] = service
        with self.log_file(service.name).open("ab") as log:
            self._running[service.name] = subprocess.Popen(
                service.command,
                env={**os.environ, **service.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait(service)

    def log_file(self, name: str) -> Path:
        """The output of the service ``name``."""
        return self.logs / f"{name}.log"

    def process(self, name: str) -> psutil.Process:
        """The process of the running service ``name``."""
        return psutil.Process(self._running[name].pid)

    def kill(self, name: str, *, with_children: bool = True) -> None:
        """Kill the service ``name`` by SIGKILL.

        :param with_children: also kill what it started
        """
        process = self._running.pop(name)
        process.kill()
        process.wait()
        if with_children:
            _kill_sessions([process.pid])

    def restart(self, name: str) -> None:
        """Start the service ``name`` again after :meth:`kill`, on the same port."""
        self.start(self._services[name])

    def stop(self) -> None:
        """End all services and what they started; safe to call twice."""
        processes = list(self._running.values())
        for process in reversed(processes):
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        _kill_sessions([process.pid for process in processes])
        for process in processes:
            process.wait()
        self._running.clear()

    def _wait(self, service: Service) -> None:
        deadline = time.monotonic() + _START_SECONDS
        process = self._running[service.name]
        while not _serves(service):
            if process.poll() is not None or time.monotonic() > deadline:
                lines = self.log_file(service.name).read_text(errors="replace").splitlines()
                raise StackError("\n".join([f"{service.name} does not serve.", *lines[-40:]]))
            time.sleep(_POLL_SECONDS)


def _serves(service: Service) -> bool:
    if service.port is None:
        return True
    if service.page is None:
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, service.port)) == 0
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{service.port}{service.page}", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _kill_sessions(leaders: Collection[int]) -> None:
    # Again and again, because a process that starts while they are listed is not in the list.
    while members := _members(leaders):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _members(leaders: Collection[int]) -> list[int]:
    members = []
    for process in psutil.process_iter(["status"]):
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) in leaders and process.info["status"] != "zombie":
                members.append(process.pid)
    return members
