"""The answers of jobs: files in the state folder, from the driver to the task that submitted it.

A job's answer is ``<state>/answers/<request_id>.json``. It is written to another file and then
moved there, so a reader finds a whole answer or no file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.model.json_text import from_json, to_json
from airflow_provider_cdc.engine.storage.files.best_effort import log_failures
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.files.uris import join

from .model import Answer

KEPT_FOR = timedelta(days=7)
"""How long an answer is kept that no task has read."""

_FOLDER = "answers"
_REQUEST_ID = re.compile(r"[0-9a-f]{32}")


def write_answer(
    state: str, answer: Answer, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Write ``answer`` to the state folder.

    :raises InvalidRequest: its request id is not the hex form of a UUID
    """
    place = _place(state, answer.request_id)
    Files(storage_options).write(place, to_json(answer).encode())


def read_answer(
    state: str, request_id: str, storage_options: Mapping[str, Any] | None = None
) -> Answer | None:
    """Return the answer to ``request_id``, or ``None`` if the job has not answered.

    :raises InvalidRequest: ``request_id`` is not the hex form of a UUID
    """
    place = _place(state, request_id)
    try:
        return from_json(Files(storage_options).read(place), Answer)
    except FileNotFoundError:
        return None


def remove_answer(
    state: str, request_id: str, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Delete the answer to ``request_id``. If there is no answer, do nothing.

    :raises InvalidRequest: ``request_id`` is not the hex form of a UUID
    """
    Files(storage_options).remove(_place(state, request_id))


def sweep_answers(
    state: str,
    storage_options: Mapping[str, Any] | None = None,
    *,
    clock: Callable[[], datetime] = utc_now,
) -> None:
    """Delete answers that are older than a week: their tasks were killed. An answer may hold rows
    of a change set. What cannot be deleted is logged, and a later sweep tries again.
    """
    files, folder = Files(storage_options), join(state, _FOLDER)
    oldest = clock() - KEPT_FOR
    with log_failures(f"sweeping {folder}"), suppress(FileNotFoundError):
        for name in files.names(folder):
            place = join(folder, name)
            # Another process may have deleted it.
            with log_failures(f"removing {place}"), suppress(FileNotFoundError):
                if files.modified(place) < oldest:
                    files.remove(place)


def _place(state: str, request_id: str) -> str:
    if not _REQUEST_ID.fullmatch(request_id):
        raise InvalidRequest(
            f"request {request_id!r}",
            "has no valid id",
            cause="expected 32 hexadecimal digits",
            fix="let the hook choose the id",
        )
    return join(state, _FOLDER, f"{request_id}.json")
