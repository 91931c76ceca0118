"""The flights demo: replay, a real Airflow that consumes, and a comparison at the end.

The replay also writes changes to an upsert table, which a DAG of its own applies. Another DAG
archives the changes of the source, and checks the archive and a target. A third one reads the
changes by partition in mapped tasks, and a fourth one keeps a history. The demo exits with 0 if
every row of the targets, and of the source as its archive returns it, equals what the source gives,
no run of the DAGs failed, and the upsert table was never staler than its ``max_staleness``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

from rich.filesize import decimal

from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.catalog.upsert_jobs import apply_watermark, upsert_stream
from airflow_provider_cdc.engine.core.consumption_lines import versions_text
from airflow_provider_cdc.engine.core.errors import StreamNotFound
from airflow_provider_cdc.engine.core.figures import counted, length_text, rows_text
from airflow_provider_cdc.engine.core.model.outcomes import Outcome
from airflow_provider_cdc.engine.core.model.stream import Phase

from .airflow_server import USER, AirflowServer
from .places import Place, this_machine
from .replay import YEAR_DAYS, positive
from .tables import Warehouse
from .targets import AIRCRAFT_FEED, MOVEMENTS

DAG_ID = "flights_punctuality"
STREAM = "flights_changes"
ARCHIVE_DAG_ID = "flights_archive"
AIRPORT_DAG_ID = "flights_by_airport"
AIRCRAFT_DAG_ID = "aircraft_history"
POOL = "cdc_background"
MARK = ".flights_demo"
DAGS = Path(__file__).resolve().parents[1]
LOOK_SECONDS = 1.0
STREAM_SECONDS = 600
DRAIN_SECONDS = 600


class DemoFailed(Exception):
    """The demo cannot go on; the message says why."""


@dataclass
class Consumed:
    """The consumptions so far, from the stream's history."""

    catalog: StreamCatalog
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def report(self) -> None:
        """Print each consumption that was committed since the last report."""
        for record in self.catalog.stream_history(STREAM):
            outcome = record.stream.last_outcome
            if outcome is None or outcome.consumption_id in self.outcomes:
                continue
            self.outcomes[outcome.consumption_id] = outcome
            (part,) = outcome.streams
            versions = versions_text(part.after_version, part.through_version)
            say(
                f"consumed {versions} of {STREAM}: {rows_text(part.rows)}"
                f" by {part.strategy.replace('_', ' ')} in {outcome.seconds:.1f} s"
            )

    def caught_up(self) -> bool:
        """Whether the offset has reached the source's newest version."""
        stream = self.catalog.get_stream(STREAM)
        return (
            stream.phase is Phase.IDLE and self.catalog.describe_stream(STREAM).versions_behind == 0
        )

    def rows(self) -> int:
        """The rows that all consumptions found inserted, updated or deleted."""
        return sum(
            sum(part.rows.values())
            for outcome in self.outcomes.values()
            for part in outcome.streams
        )


@dataclass
class Board:
    """How fresh the upsert table is kept. ``staleness`` is the longest time in seconds that a
    change waited to be applied.
    """

    catalog: StreamCatalog
    location: str
    staleness: float = 0
    objective: float = 0
    is_fresh: bool = False
    _watermark: datetime | None = None

    @property
    def verdict(self) -> str:
        """The highest staleness, and what ``max_staleness`` allows."""
        stale, promise = (
            length_text(timedelta(seconds=round(each))) for each in (self.staleness, self.objective)
        )
        return f"flight_board was at most {stale} stale; its max_staleness allows {promise}"

    def check(self) -> None:
        """Check the staleness.

        :raises DemoFailed: it was higher than ``max_staleness``
        """
        if self.staleness > self.objective:
            raise DemoFailed(f"{self.verdict}: the promise is broken")
        say(self.verdict)

    def report(self) -> None:
        """Print the watermark if it has moved since the last report."""
        stream = upsert_stream(self.catalog.list_streams(), self.location)
        if stream is None or stream.max_lag is None:
            raise DemoFailed(f"{self.location} is not an upsert table with a max_staleness")
        status = self.catalog.status_of(stream)
        since, now = status.behind_since, datetime.now(UTC)
        self.objective = stream.max_lag.total_seconds()
        self.is_fresh = since is None
        waited = 0.0 if since is None else (now - since).total_seconds()
        self.staleness = max(self.staleness, waited)
        if stream.last_outcome is None or stream.offset.timestamp == self._watermark:
            return
        self._watermark = stream.offset.timestamp
        changes = sum(part.rows["inserted"] for part in stream.last_outcome.streams)
        say(
            f"flight_board: {counted(changes, 'change')} applied in"
            f" {stream.last_outcome.seconds:.1f} s, all up to"
            f" {apply_watermark(stream, status):%H:%M:%S} UTC; the oldest that waits came"
            f" {waited:.0f} s ago"
        )


def say(text: str) -> None:
    """Print one line of progress at once."""
    print(f"demo: {text}", flush=True)


@contextmanager
def started(place: Place, job: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of the demo's Spark jobs while it runs, with Spark's own messages in its log. It is ended
    in any case.
    """
    tables = ("--warehouse", place.warehouse, "--cdc-state", place.cdc_state)
    with log_of(place, job).open("wb") as messages:
        process = subprocess.Popen(
            [sys.executable, "-m", f"flights_demo.{job}", *tables, *arguments],
            cwd=DAGS,
            env={**os.environ, **place.jobs},
            stderr=messages,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def log_of(place: Place, job: str) -> Path:
    """The file with the messages of one of the demo's Spark jobs."""
    return place.folder / f"{job}.log"


def finish(place: Place, job: str, *arguments: str) -> None:
    """Run one of the demo's Spark jobs to its end.

    :raises DemoFailed: it failed; the message ends with the last lines of its log
    """
    with started(place, job, *arguments) as process:
        code = process.wait()
    check(place, job, code)


def check(place: Place, job: str, code: int) -> None:
    """Check the exit code of a job.

    :raises DemoFailed: ``code`` is not 0
    """
    if code:
        tail = "\n".join(log_of(place, job).read_text(errors="replace").splitlines()[-20:])
        raise DemoFailed(f"{job} exited with {code}\n{tail}")


def airflow(place: Place) -> AirflowServer:
    """The server with the demo's DAGs, connections and Variable."""
    env = {**place.airflow, "AIRFLOW_VAR_FLIGHTS_WAREHOUSE": place.warehouse}
    return AirflowServer(home=place.folder / "airflow", dags_folder=DAGS, env=env)


def failed_runs(server: AirflowServer) -> list[str]:
    """The ids of the DAG runs that failed."""
    runs = server.api("GET", f"/dags/{DAG_ID}/dagRuns?state=failed&limit=10")["dag_runs"]
    return [run["dag_run_id"] for run in runs]


def wait_for_stream(server: AirflowServer, catalog: StreamCatalog) -> None:
    """Wait until the DAG has created its stream.

    :raises DemoFailed: a run failed, or it takes longer than ``STREAM_SECONDS``
    """
    deadline = time.monotonic() + STREAM_SECONDS
    while time.monotonic() < deadline:
        refuse_failed_runs(server)
        try:
            offset = catalog.get_stream(STREAM).offset
        except StreamNotFound:
            time.sleep(LOOK_SECONDS)
        else:
            say(f"stream {STREAM} is there, at version {offset.version}; the replay begins")
            return
    raise DemoFailed(f"{DAG_ID} created no stream in {STREAM_SECONDS} s")


def refuse_failed_runs(server: AirflowServer) -> None:
    """Check that no DAG run failed.

    :raises DemoFailed: a DAG run failed
    """
    if failed := failed_runs(server):
        raise DemoFailed(f"{DAG_ID} failed in {', '.join(failed)}; logs: {server.home}/logs")


def consume_all(
    place: Place,
    server: AirflowServer,
    consumed: Consumed,
    board: Board,
    process: subprocess.Popen[bytes],
) -> None:
    """Watch the DAGs until the replay has ended and everything is consumed and applied.

    :raises DemoFailed: the replay or a DAG run failed, or the rest takes too long
    """
    ended_at: float | None = None
    while True:
        # Read before the offset, so that nothing is written in between.
        code = process.poll()
        consumed.report()
        board.report()
        refuse_failed_runs(server)
        if code is not None:
            check(place, "replay", code)
            if ended_at is None:
                ended_at = time.monotonic()
                apply_now(server)
            if consumed.caught_up() and board.is_fresh:
                break
            if time.monotonic() - ended_at > DRAIN_SECONDS:
                raise DemoFailed(f"changes are left {DRAIN_SECONDS} s after the replay")
        time.sleep(LOOK_SECONDS)
    consumed.report()


def apply_now(server: AirflowServer) -> None:
    """Run the DAG of the upsert table now, because no more changes come, and its next run may be
    minutes away.
    """
    (dag,) = server.api("GET", "/dags?tags=upserts")["dags"]
    say(f"the replay has ended; runs the DAG '{dag['dag_display_name']}' once more")
    server.trigger(dag["dag_id"])


def run_once(server: AirflowServer, dag_id: str) -> str:
    """Run a DAG once, wait for its end, and return the id of the run.

    :raises DemoFailed: the run failed
    """
    run_id = server.trigger(dag_id)
    state = server.wait_run(dag_id, run_id, DRAIN_SECONDS)
    if state != "success":
        raise DemoFailed(f"{dag_id} ended as {state} in {run_id}; logs: {server.home}/logs")
    return run_id


def check_archive(server: AirflowServer) -> None:
    """Archive the rest, check the archive and the copy, and print what was found.

    :raises DemoFailed: a check found a difference, or a run failed
    """
    say(f"runs the DAG {ARCHIVE_DAG_ID} once more: it archives the rest and checks two targets")
    run_id = run_once(server, ARCHIVE_DAG_ID)
    archived = server.xcom(ARCHIVE_DAG_ID, run_id, "archive")
    say(
        f"flights_archive: {archived['rows']:,} more changes, through version"
        f" {archived['through_version']} of flights"
    )
    for target in ("archive", "current_flights"):
        found = server.xcom(ARCHIVE_DAG_ID, run_id, f"check_{target}")
        read, total = decimal(found["bytes_read"]), decimal(found["bytes_total"])
        say(
            f"check of {target}: equals flights at version {found['verified_through']};"
            f" {read} of {total} read"
        )


def read_partitions(server: AirflowServer, catalog: ChangeStreamCatalog) -> None:
    """Capture and read the rest of the change stream, and print what its readers did.

    :raises DemoFailed: a run failed, or records are left
    """
    say(f"runs the DAG {AIRPORT_DAG_ID} until every change is read by partition")
    while True:
        run_id = run_once(server, AIRPORT_DAG_ID)
        tokens = server.xcom(AIRPORT_DAG_ID, run_id, "partitions")
        (status,) = catalog.describe_change_streams()
        until = f"{status.captured_through:%H:%M:%S} UTC"
        if not tokens:
            say(f"{MOVEMENTS}: every change up to {until} is read")
            return
        say(
            f"{MOVEMENTS}: mapped tasks read {counted(len(tokens), 'partition')}; the next run has"
            f" {counted(status.partitions, 'partition')} to read, after {until}"
        )


def keep_history(server: AirflowServer, catalog: StreamCatalog) -> None:
    """Apply the rest of the changes to the history of the aircraft, and print what was done.

    :raises DemoFailed: a run failed
    """
    say(f"runs the DAG {AIRCRAFT_DAG_ID} until the history has every change")
    while catalog.probe_of(catalog.get_stream(AIRCRAFT_FEED)).may_have_data:
        run_id = run_once(server, AIRCRAFT_DAG_ID)
        found = server.xcom(AIRCRAFT_DAG_ID, run_id, "apply")
        (taken,), metrics = found["streams"], found["statements"][-1]["metrics"]
        say(
            f"aircraft_history: has the flights through version {taken['through_version']};"
            f" {counted(metrics['rowsWritten'], 'row')} written"
        )


def make_anew(state: Path) -> None:
    """Empty the folder of an earlier demo, or create it.

    :raises DemoFailed: the folder holds something else
    """
    mark = state / MARK
    if state.exists() and any(state.iterdir()) and not mark.exists():
        raise DemoFailed(f"{state} is not a folder of this demo: name another, or empty it")
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True)
    mark.touch()


def run(place: Place, days: int, *, stay: bool) -> None:
    """Run the whole demo in an empty place.

    :raises DemoFailed: anything went wrong, a row differs, or the upsert table's promise is broken
    """
    began = time.monotonic()
    say(
        f"replays {counted(days, 'day')} of flights into a table while a DAG consumes its changes,"
        f" and compares every row; allow {place.minutes} minutes on two cores"
    )
    say("makes the tables (half a minute)")
    finish(place, "setup")
    catalog = StreamCatalog(place.cdc_state, storage_options=place.storage_options)
    consumed = Consumed(catalog)
    board = Board(catalog, Warehouse(place.warehouse).flight_board)
    say(f"starts Airflow (about a minute), its logs are in {place.folder / 'airflow' / 'logs'}")
    with airflow(place) as server:
        say(f"Airflow is up after {elapsed(began)}")
        if stay:
            say(f"address {server.url}, user {USER}, password {server.password}")
        server.make_pool(POOL, 1)
        say(f"waits for the DAG {DAG_ID} to create its stream")
        server.wait_dag(DAG_ID, STREAM_SECONDS)
        wait_for_stream(server, catalog)
        server.wait_dag(ARCHIVE_DAG_ID, STREAM_SECONDS)
        server.trigger(ARCHIVE_DAG_ID)
        server.wait_dag(AIRPORT_DAG_ID, STREAM_SECONDS)
        server.trigger(AIRPORT_DAG_ID)
        server.wait_dag(AIRCRAFT_DAG_ID, STREAM_SECONDS)
        with started(place, "replay", "--days", str(days)) as replay:
            consume_all(place, server, consumed, board, replay)
        say(
            f"{counted(consumed.rows(), 'changed row')} consumed in"
            f" {counted(len(consumed.outcomes), 'consumption')}, after {elapsed(began)}"
        )
        check_archive(server)
        partitions = ChangeStreamCatalog(place.cdc_state, storage_options=place.storage_options)
        read_partitions(server, partitions)
        keep_history(server, catalog)
        board.check()
        if stay:
            compare(place)
            say(f"Airflow runs on at {server.url} until Ctrl-C")
            signal.pause()
    say("compares the targets with the source, row for row")
    compare(place)
    say(f"passed after {elapsed(began)}: no row differs, and every promise was kept")


def elapsed(began: float) -> str:
    """The time since ``began``, in words."""
    return length_text(timedelta(seconds=round(time.monotonic() - began)))


def compare(place: Place) -> None:
    """Compare the targets with the source.

    :raises DemoFailed: a row differs
    """
    finish(place, "compare", "--result", str(place.folder / "result.json"))


def end_on_signal() -> None:
    """Raise ``KeyboardInterrupt`` at the first SIGTERM or Ctrl-C.

    Later signals are ignored: ``make`` and a terminal may both send one, and the second would
    interrupt the cleanup.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, interrupt)


def main(place_in: Callable[[Path], AbstractContextManager[Place]] = this_machine) -> int:
    """Run the demo; returns the exit code.

    :param place_in: makes the place where the demo runs, with its files in a folder
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state", required=True, type=Path, help="folder, made anew")
    parser.add_argument("--days", type=positive, default=YEAR_DAYS, help="days of 2013 to replay")
    parser.add_argument("--stay", action="store_true", help="leave Airflow running until Ctrl-C")
    options = parser.parse_args()
    end_on_signal()
    state = options.state.resolve()
    try:
        make_anew(state)
        with place_in(state) as place:
            run(place, options.days, stay=options.stay)
    except DemoFailed as error:
        print(f"demo: failed: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return 0 if options.stay else 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
