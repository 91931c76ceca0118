"""Checks that a process reaches a state folder as it has to."""

from __future__ import annotations

import uuid

from ...core.findings import Finding
from ..files.stores import Files
from ..files.uris import join

PROBE = "doctor-"
"""The beginning of the names of what checks write. Each check removes what it wrote."""


def folder_finding(state: str, files: Files, subject: str) -> Finding:
    """Whether this process can read and write a state folder, and create a file only once.

    :raises Exception: the store fails
    """
    if files.is_local(state) and not files.exists(state):
        return Finding(
            subject,
            f"{state} does not exist on this machine",
            "mount it here; before the first stream, create it",
        )
    probe = join(state, f"{PROBE}{uuid.uuid4().hex}")
    is_new = files.create(probe, b"doctor")
    is_refused = not files.create(probe, b"again")
    content = files.read(probe)
    files.remove(probe)
    if not (is_new and is_refused and content == b"doctor"):
        return Finding(
            subject,
            f"{state} does not refuse to create a file that exists",
            "use a store that can create a file only if it does not exist: a local disk, S3,"
            " ADLS or GCS",
        )
    return Finding(subject, f"{state} can be read and written")
