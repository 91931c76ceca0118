"""The apply schedules of all upsert tables of a connection, for DAG files.

Airflow parses a DAG file repeatedly, each time in a new process. So a file below ``AIRFLOW_HOME``
keeps the answer of the registry for a while. If the registry cannot be reached or does not answer,
its last answer stays in use, because without DAGs nothing would be applied.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import msgspec

from airflow_provider_cdc.engine.catalog.bounded_map import bounded_map
from airflow_provider_cdc.engine.catalog.upsert_jobs import apply_schedules
from airflow_provider_cdc.engine.core.model.serialization import UnreadableStream
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.core.upserts.apply_schedule import ApplySchedule
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.connection import CdcConnection

log = logging.getLogger(__name__)

KEPT_FOR = timedelta(minutes=1)
# If the parse of a DAG file takes half a minute, Airflow gives up the file and its DAGs.
_PATIENCE_SECONDS = 10.0


class _Kept(msgspec.Struct):
    """The content of the file: when the registry was read (Unix time), and its answer."""

    at: float
    plan: list[ApplySchedule]


def apply_plan(
    conn_id: str, default_interval: timedelta, refresh: timedelta
) -> list[ApplySchedule]:
    """Return the schedule of each upsert table of ``conn_id``.

    :param default_interval: how often to apply if a table has no ``max_staleness``
    :param refresh: how long an answer of the registry is reused
    :raises AirflowNotFoundException: there is no such connection
    """
    settings = CdcHook(conn_id).settings
    file = _file(settings, default_interval)
    kept = _read(file)
    if kept is None:
        plan = _plan(settings, default_interval)
    elif 0 <= time.time() - kept.at < refresh.total_seconds():
        return kept.plan
    else:
        try:
            plan = _plan_in_time(settings, default_interval, is_needed=bool(kept.plan))
        except Exception:
            log.exception("The registry of %s cannot be read; its last plan stays in use", conn_id)
            return kept.plan
    _write(file, _Kept(time.time(), plan))
    return plan


def _plan_in_time(
    settings: CdcConnection, default_interval: timedelta, *, is_needed: bool
) -> list[ApplySchedule]:
    """Return the answer of the registry, if it comes within ten seconds.

    :raises TimeoutError: the registry did not answer in this time
    """
    (found,) = bounded_map(
        lambda each: _plan(each, default_interval, is_needed=is_needed),
        [settings],
        at_once=1,
        patience_seconds=_PATIENCE_SECONDS,
    )
    if isinstance(found, Exception):
        raise found
    return found


def _plan(
    settings: CdcConnection, default_interval: timedelta, *, is_needed: bool = False
) -> list[ApplySchedule]:
    """Return the answer of the registry.

    :param is_needed: whether there was a registry before
    :raises FileNotFoundError: a registry is needed, and there is no registry
    """
    catalog = settings.catalog()
    streams = catalog.list_streams_if_begun()
    if streams is None:
        if is_needed:
            raise FileNotFoundError(f"there is no registry in {settings.state}")
        log.warning(
            "There is no registry in %s, so no DAG applies upsert tables of %s. If there"
            " should be one, let this process, which parses DAG files, reach the state folder"
            " as workers do",
            settings.state,
            settings.conn_id,
        )
    readable = [stream for stream in streams or [] if isinstance(stream, Stream)]
    for stream in streams or []:
        if isinstance(stream, UnreadableStream):
            log.error("No DAG applies the changes of an unreadable stream: %s", stream.error)
    return apply_schedules(readable, settings.apply_times(), default_interval)


def _file(settings: CdcConnection, default_interval: timedelta) -> Path:
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
    known_by = f"{settings.conn_id} {settings.state} {default_interval}"
    return home / "cdc" / f"applies-{sha256(known_by.encode()).hexdigest()[:16]}.json"


def _read(file: Path) -> _Kept | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError):
        return None


def _write(file: Path, kept: _Kept) -> None:
    draft = file.with_suffix(f".{os.getpid()}")
    # Without the file, each parse reads the registry. This is slower, and has no other effect.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(kept))
        draft.replace(file)
