"""The driver's side of history targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Answer, HistoryTask, RebuildHistory

if TYPE_CHECKING:
    from airflow_provider_cdc.engine import Engine


def history_answer(request_id: str, task: HistoryTask, engine: Engine) -> Answer:
    """Run ``task``, and return its answer. Without an outcome there was nothing to apply."""
    if isinstance(task, RebuildHistory):
        outcome = engine.rebuild_history(
            task.target,
            task.archive,
            stream=task.stream,
            consumer=task.consumer,
            query=task.query,
        )
        return Answer(request_id, outcome=outcome)
    applied = engine.apply_changes(**task.request.arguments, consumer=task.consumer)
    return Answer(request_id, outcome=applied)
