"""The driver's side of archiving changes and of checking targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Answer, ArchiveChanges, VerifyTarget

if TYPE_CHECKING:
    from airflow_provider_cdc.engine import Engine


def archive_answer(request_id: str, task: ArchiveChanges | VerifyTarget, engine: Engine) -> Answer:
    """Run ``task``, and return its answer."""
    if isinstance(task, VerifyTarget):
        verification = engine.verify_target(
            task.stream, task.target, task.key, heal=task.heal, full=task.full
        )
        return Answer(request_id, verification=verification)
    archived = engine.archive_changes(
        task.table,
        task.archive,
        from_version=task.from_version,
        from_timestamp=task.from_timestamp,
        bootstrap=task.bootstrap,
        max_commits=task.max_commits,
        max_bytes=task.max_bytes,
    )
    return Answer(request_id, archived=archived)
