"""The driver's side of history targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Answer, ApplyChanges

if TYPE_CHECKING:
    from airflow_provider_cdc.engine import Engine


def history_answer(request_id: str, task: ApplyChanges, engine: Engine) -> Answer:
    """Run ``task``, and return its answer. Without an outcome there was nothing to apply."""
    outcome = engine.apply_changes(**task.request.arguments, consumer=task.consumer)
    return Answer(request_id, outcome=outcome)
