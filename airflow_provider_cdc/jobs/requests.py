"""Requests that are too long for a command line: files in the state folder, for the driver to read.

The submitter writes ``<state>/requests/<request_id>.json``, and removes it when the job has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_cdc.engine.core.model.json_text import from_json, to_json
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.files.uris import join

from .model import Request


def request_place(request: Request) -> str:
    """The URI of the file of ``request``."""
    return join(request.state, "requests", f"{request.request_id}.json")


def write_request(request: Request, storage_options: Mapping[str, Any] | None = None) -> None:
    """Write ``request`` to its file."""
    Files(storage_options).write(request_place(request), to_json(request).encode())


def read_request(place: str, storage_options: Mapping[str, Any] | None = None) -> Request:
    """Return the request in the file ``place``.

    :raises FileNotFoundError: there is no such file
    :raises msgspec.ValidationError: the request is malformed
    """
    return from_json(Files(storage_options).read(place), Request)


def remove_request(request: Request, storage_options: Mapping[str, Any] | None = None) -> None:
    """Delete the file of ``request``. If there is no file, do nothing."""
    Files(storage_options).remove(request_place(request))
