"""A real Airflow on this machine for a demo or a test: its four parts and its REST API.

Each part runs in a session of its own. Stopping a part ends everything in that session: tasks
(which have process groups of their own) and the Spark applications that they wait for. Logs are
read from the disk, because the log servers of ``airflow standalone`` listen on every interface.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import psutil

USER = "admin"
POLL_SECONDS = 0.5
# How long the api-server may take to answer one request.
ANSWER_SECONDS = 30.0
_STOP_SECONDS = 20
_MIGRATION_SECONDS = 300
_PASSWORDS = "simple_auth_manager_passwords.json.generated"
_OF_CONNECT = ("SPARK_CONNECT_MODE", "SPARK_REMOTE")
_PARTS = {
    "api-server": (),
    "dag-processor": (),
    "scheduler": ("--skip-serve-logs",),
    "triggerer": ("--skip-serve-logs",),
}

Found = TypeVar("Found")


class AirflowServerError(RuntimeError):
    """The server did not do what was requested; the message ends with its last lines.

    ``status`` is the status of its answer over HTTP, if it gave one.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def free_port() -> int:
    """A loopback port on which nothing listens at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass
class AirflowServer:
    """Airflow's parts with a home, a DAG folder and a port of their own.

    :param home: ``AIRFLOW_HOME``; database, logs and passwords are made there
    :param dags_folder: the folder of DAG files
    :param port: of the api-server, on the loopback address
    :param base_path: the path of web pages and API, such as ``/airflow``
    :param env: environment variables in addition to the present ones, such as ``AIRFLOW_CONN_...``
    """

    home: Path
    dags_folder: Path
    port: int = field(default_factory=free_port)
    base_path: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    _parts: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False, repr=False)
    _token: str = field(default="", init=False, repr=False)

    @property
    def url(self) -> str:
        """The address of web pages and API."""
        return f"http://127.0.0.1:{self.port}{self.base_path}"

    @property
    def log_file(self) -> Path:
        """Where the server's own output goes."""
        return self.home / "airflow.log"

    @property
    def password(self) -> str:
        """The password of the user ``admin``, which the server generated when it first started."""
        passwords: dict[str, str] = json.loads((self.home / _PASSWORDS).read_text())
        return passwords[USER]

    def environment(self) -> dict[str, str]:
        """The environment that the server and its tasks run in."""
        interpreter = Path(sys.executable).parent
        # A process with a session over Spark Connect marks its environment, and Spark starts no
        # driver in such an environment.
        inherited = {name: v for name, v in os.environ.items() if not name.startswith(_OF_CONNECT)}
        return {
            **inherited,
            "PATH": f"{interpreter}{os.pathsep}{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags_folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
            **self.env,
        }

    def processes(self) -> list[psutil.Process]:
        """The processes of the parts that run; what they started are their children."""
        return [psutil.Process(process.pid) for process in self._parts.values()]

    def start(self) -> AirflowServer:
        """Create the database if it does not exist, and start all parts.

        :raises AirflowServerError: the database could not be created
        """
        self.home.mkdir(parents=True, exist_ok=True)
        migration = self._parts["db"] = self._run("db", "migrate")
        self._wait(
            lambda: migration.poll() is not None, _MIGRATION_SECONDS, "the database was not made"
        )
        if migration.returncode != 0:
            raise AirflowServerError(f"airflow db migrate failed.\n{self._tail()}")
        del self._parts["db"]
        for part in _PARTS:
            self.start_part(part)
        return self

    def kill(self, part: str) -> None:
        """Kill a part of the server, such as ``triggerer``, with all that it started."""
        _kill([self._parts[part]])
        del self._parts[part]

    def start_part(self, part: str) -> None:
        """Start a part of the server that was not started, or was killed."""
        if part in self._parts:
            raise AirflowServerError(f"airflow {part} was started before: kill it first")
        self._parts[part] = self._run(part, *_PARTS[part])

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log_file.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "airflow", *arguments],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_healthy(self, timeout_seconds: float = 300) -> AirflowServer:
        """Wait until database, scheduler, triggerer and dag-processor report that they are healthy.

        :raises AirflowServerError: the server ended, or is not healthy after ``timeout_seconds``
        """
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")

        def healthy() -> bool:
            for name, process in self._parts.items():
                if process.poll() is not None:
                    raise AirflowServerError(f"airflow {name} ended.\n{self._tail()}")
            try:
                health = self._request("GET", "/api/v2/monitor/health", token=False)
            except OSError:
                return False
            return all((health.get(part) or {}).get("status") == "healthy" for part in parts)

        self._wait(healthy, timeout_seconds, "Airflow is not healthy")
        return self

    def login(self, timeout_seconds: float = 30) -> AirflowServer:
        """Get a token for the user ``admin``.

        :raises AirflowServerError: the server generated no password within ``timeout_seconds``
        """
        file = self.home / _PASSWORDS
        self._wait(file.exists, timeout_seconds, "no password was generated")
        body = {"username": USER, "password": self.password}
        self._token = self._request("POST", "/auth/token", body, token=False)["access_token"]
        return self

    def token(self) -> str:
        """The token of the last :meth:`login`."""
        return self._token

    def api(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call the REST API; ``path`` begins after ``/api/v2``.

        :raises AirflowServerError: the answer is not a success
        """
        return self._request(method, f"/api/v2{path}", body)

    def make_pool(self, name: str, slots: int, timeout_seconds: float = 60) -> None:
        """Create a pool if there is no pool of that name.

        The scheduler locks SQLite while it writes. A request that fails because of that is
        repeated.

        :raises AirflowServerError: the pool was not created within ``timeout_seconds``
        """
        body = {"name": name, "slots": slots, "include_deferred": False}

        def is_made() -> bool:
            try:
                self.api("POST", "/pools", body)
            except AirflowServerError as error:
                if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
                    return False
                if error.status != HTTPStatus.CONFLICT:
                    raise
            return True

        self._wait(is_made, timeout_seconds, f"pool {name} could not be made")

    def wait_dag(self, dag_id: str, timeout_seconds: float = 300) -> None:
        """Wait until the DAG was parsed.

        :raises AirflowServerError: it was not parsed within ``timeout_seconds``, or there are
            import errors
        """

        def parsed() -> bool:
            errors = self.api("GET", "/importErrors")["import_errors"]
            if errors:
                raise AirflowServerError(f"import error: {errors[0]['stack_trace']}")
            return any(
                dag["dag_id"] == dag_id for dag in self.api("GET", "/dags?limit=100")["dags"]
            )

        self._wait(parsed, timeout_seconds, f"DAG {dag_id} was not parsed")

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run of ``dag_id``; returns its id.

        :raises AirflowServerError: there is no such DAG
        """
        body = {"logical_date": None, "conf": dict(conf or {})}
        run_id: str = self.api("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"]
        return run_id

    def run_state(self, dag_id: str, run_id: str) -> str:
        """The state of a run, such as ``running`` or ``success``."""
        state: str = self.api("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"]
        return state

    def wait_run(self, dag_id: str, run_id: str, timeout_seconds: float = 600) -> str:
        """Wait for the end of a run; returns ``success`` or ``failed``.

        :raises AirflowServerError: it has not ended after ``timeout_seconds``
        """

        def ended() -> str | None:
            state = self.run_state(dag_id, run_id)
            return state if state in ("success", "failed") else None

        return self._wait(ended, timeout_seconds, f"run {run_id} of {dag_id} has not ended")

    def wait_success(self, dag_id: str, run_id: str, timeout_seconds: float = 600) -> None:
        """Wait for the end of a run that should succeed.

        :raises AirflowServerError: it failed, with the ends of its failed tasks' logs; or it has
            not ended after ``timeout_seconds``
        """
        if self.wait_run(dag_id, run_id, timeout_seconds) == "success":
            return
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances?state=failed"
        logs = [
            f"{task['task_id']}, attempt {task['try_number']}:\n"
            + _end(self.task_log(dag_id, run_id, task["task_id"], task["try_number"]))
            for task in self.api("GET", path)["task_instances"]
        ]
        raise AirflowServerError("\n".join([f"run {run_id} of {dag_id} failed.", *logs]))

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """The current attempt of a task: ``state``, ``try_number`` and more."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        instance: dict[str, Any] = self.api("GET", path)
        return instance

    def wait_task(
        self, dag_id: str, run_id: str, task_id: str, state: str, timeout_seconds: float = 300
    ) -> None:
        """Wait until a task is in ``state``.

        :raises AirflowServerError: it is not in that state after ``timeout_seconds``
        """
        self._wait(
            lambda: self.task(dag_id, run_id, task_id)["state"] == state,
            timeout_seconds,
            f"task {task_id} of run {run_id} is not {state}",
        )

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What a task returned, as JSON."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        value = self.api("GET", path)["value"]
        return json.loads(value) if isinstance(value, str) else value

    def task_log(self, dag_id: str, run_id: str, task_id: str, attempt: int = 1) -> str:
        """The log of one attempt of a task, as text."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{attempt}"
        content = self.api("GET", f"{path}?full_content=true")["content"]
        return "\n".join(
            str(line.get("event", line)) if isinstance(line, dict) else str(line)
            for line in content
        )

    def stop(self) -> None:
        """End the server and everything it started; safe to call twice."""
        parts = list(self._parts.values())
        _signal(parts, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while _members(parts) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        _kill(parts)
        self._parts.clear()

    def __enter__(self) -> AirflowServer:
        try:
            return self.start().wait_healthy().login()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait(self, look: Callable[[], Found | None], timeout_seconds: float, what: str) -> Found:
        deadline = time.monotonic() + timeout_seconds
        while not (found := _answer(look)):
            if time.monotonic() > deadline:
                raise AirflowServerError(f"{what} after {timeout_seconds} s.\n{self._tail()}")
            time.sleep(POLL_SECONDS)
        return found

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, token: bool = True
    ) -> Any:
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        if token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            message = f"{method} {path}: {error.code} {text}"
            raise AirflowServerError(message, error.code) from error

    def _tail(self) -> str:
        return _end(self.log_file.read_text(errors="replace") if self.log_file.exists() else "")


def _answer(look: Callable[[], Found | None]) -> Found | None:
    """What ``look`` finds; ``None`` if the api-server is too busy to answer now."""
    with suppress(TimeoutError):
        return look()
    return None


def _end(text: str, lines: int = 40) -> str:
    return "\n".join(text.splitlines()[-lines:])


def _kill(leaders: Collection[subprocess.Popen[bytes]]) -> None:
    # Again and again, because a process that starts while they are listed is not in the list.
    while _signal(leaders, signal.SIGKILL):
        pass
    for process in leaders:
        process.wait()


def _signal(leaders: Collection[subprocess.Popen[bytes]], number: signal.Signals) -> bool:
    """Send a signal to all processes of these sessions; returns whether there were any."""
    members = _members(leaders)
    for pid in members:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return bool(members)


def _members(leaders: Collection[subprocess.Popen[bytes]]) -> list[int]:
    sessions = {process.pid for process in leaders}
    members = []
    for process in psutil.process_iter(["status"]):
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) in sessions and process.info["status"] != "zombie":
                members.append(process.pid)
    return members
