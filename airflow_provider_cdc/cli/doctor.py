"""``doctor``: checks what jobs and monitors need, one line each, with what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from airflow_provider_cdc.engine.catalog.bounded_map import bounded_map
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.delta.tracking import is_tracked
from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.figures import counted, length_text
from airflow_provider_cdc.engine.core.findings import Finding
from airflow_provider_cdc.engine.core.requirements import DELTA, JAVA, SPARK, check_version
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog
from airflow_provider_cdc.engine.storage.state.folder_checks import folder_finding
from airflow_provider_cdc.engine.storage.state.status_snapshots import StatusSnapshots

_MONITOR_IS_LATE = timedelta(minutes=15)
_JAVA_SECONDS = 30
_JAVA_VERSION = re.compile(r'version "([^"]+)"')
_SHOWN_PROBLEMS = 3
_READS_AT_ONCE = 16
_READ_PATIENCE_SECONDS = 60


def findings(state: str, storage_options: Mapping[str, Any]) -> Iterator[Finding]:
    """Check this machine and a state folder. Each check is made, also after others have failed."""
    yield from on_this_machine()
    files = Files(storage_options)
    for check in (
        lambda: folder_finding(state, files, "state folder"),
        lambda: _registry(state, storage_options),
        lambda: _sources(state, storage_options),
        lambda: _row_tracking(state, storage_options),
        lambda: _monitor(state, files),
    ):
        yield _made(check)


def on_this_machine() -> Iterator[Finding]:
    """Check the versions of Java, Spark and Delta. A driver in client mode runs with them."""
    yield _version("Java", _java_version(), JAVA, "install Java 17, or name it in JAVA_HOME")
    yield _version("Spark", _package("pyspark"), SPARK, "install pyspark 4.2")
    yield _version("Delta", _package("delta-spark"), DELTA, "install delta-spark 4.4")


def _made(check: Callable[[], Finding]) -> Finding:
    """The finding of a check, also if it fails."""
    try:
        return check()
    except CdcError as error:
        return Finding("state folder", error.problem, error.fix)
    except Exception as error:
        # The text of a store's error may hold an address with a token.
        text = f"cannot be read ({type(error).__name__})"
        return Finding("state folder", text, "check the address, the network and the credentials")


def _version(product: str, found: str | None, needed: tuple[int, ...], fix: str) -> Finding:
    try:
        check_version(product, found, needed, fix)
    except CdcError:
        least = ".".join(map(str, needed))
        return Finding(product, f"expected {least} or newer, found {found or 'no version'}", fix)
    return Finding(product, f"version {found}")


def _package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _java_version() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        found = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _JAVA_VERSION.search(found.stderr)
    return None if match is None else match[1]


def _registry(state: str, storage_options: Mapping[str, Any]) -> Finding:
    catalog = StreamCatalog(state, storage_options=dict(storage_options))
    streams = catalog.list_streams_if_begun()
    if streams is None:
        return Finding("registry", "not there yet; the first stream creates it")
    return Finding("registry", counted(len(streams), "stream"))


def _sources(state: str, storage_options: Mapping[str, Any]) -> Finding:
    catalog = StreamCatalog(state, storage_options=dict(storage_options))
    if not catalog.is_begun:
        return Finding("sources", "there is no stream yet")
    statuses = catalog.describe_streams()
    broken = [status for status in statuses if status.invalid_reason is not None]
    if not broken:
        return Finding("sources", f"all {counted(len(statuses), 'stream')} can be read")
    reasons = [str(status.invalid_reason).partition(". Cause: ")[0] for status in broken]
    return Finding(
        "sources",
        f"{counted(len(broken), 'stream')} of {len(statuses)} cannot be read: {_some(reasons)}",
        "describe each of them: its invalid_reason says what to do",
    )


def _row_tracking(state: str, storage_options: Mapping[str, Any]) -> Finding:
    """Whether row tracking is on in the tables that streams read. Without it, nothing shows
    which rows changed.
    """
    subject = "row tracking"
    catalog = StreamCatalog(state, storage_options=dict(storage_options))
    readers: dict[tuple[str, str], list[str]] = {}
    for stream in catalog.list_streams():
        for base in () if stream.folder else stream.bases:
            place = (base.source.location, base.source.name)
            readers.setdefault(place, []).append(stream.name)
    log = SourceLog(Files(storage_options))
    states = bounded_map(
        lambda place: is_tracked(log.newest_offset(place[0]).metadata),
        list(readers),
        at_once=_READS_AT_ONCE,
        patience_seconds=_READ_PATIENCE_SECONDS,
    )
    # The check of the sources names those that cannot be read.
    found = zip(readers, states, strict=True)
    tracked = {place: is_on for place, is_on in found if not isinstance(is_on, Exception)}
    untracked = [place for place, is_on in tracked.items() if not is_on]
    if not untracked:
        return Finding(subject, f"is on in {counted(len(tracked), 'table')} that streams read")
    shown = [f"{place[1]} (read by {', '.join(readers[place])})" for place in untracked]
    return Finding(
        subject,
        f"is off in {counted(len(untracked), 'table')} of {len(tracked)}: {_some(shown)}",
        "switch it on with the operator EnableChangeTracking or engine.enable_change_tracking, then"
        " do what the invalid_reason of each of these streams says",
    )


def _some(problems: Sequence[str]) -> str:
    """The first of ``problems`` in one text."""
    more = ["..."] if len(problems) > _SHOWN_PROBLEMS else []
    return "; ".join([*problems[:_SHOWN_PROBLEMS], *more])


def _monitor(state: str, files: Files) -> Finding:
    snapshot = StatusSnapshots(state, files).newest()
    if snapshot is None:
        return Finding(
            "monitor",
            "no monitor has checked the streams yet",
            "put stale_stream_monitor([LogNotifier()]) into a file of DAGs",
        )
    age = utc_now() - snapshot.as_of
    text = f"the last check was {length_text(timedelta(seconds=int(age.total_seconds())))} ago"
    if age > _MONITOR_IS_LATE:
        return Finding("monitor", text, "look at the runs of its DAG: it is paused, or fails")
    return Finding("monitor", text)
