"""The driver's side of change streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .change_stream_tasks import (
    AdvanceChangeStream,
    AlterChangeStream,
    ChangeStreamTask,
    CreateChangeStream,
    DropChangeStream,
)
from .functions import function_named
from .model import Answer

if TYPE_CHECKING:
    from airflow_provider_cdc.engine import Engine


def change_stream_answer(request_id: str, task: ChangeStreamTask, engine: Engine) -> Answer:
    """Run ``task``, and return its answer."""
    match task:
        case CreateChangeStream():
            created = engine.create_change_stream(**task.spec.arguments)
            return Answer(request_id, change_stream=created)
        case AlterChangeStream():
            altered = engine.alter_change_stream(task.change_stream, **task.arguments)
            return Answer(request_id, change_stream=altered)
        case AdvanceChangeStream():
            advanced = engine.advance_change_stream(task.change_stream)
            return Answer(request_id, change_stream=advanced)
        case DropChangeStream():
            engine.drop_change_stream(task.change_stream, if_exists=task.if_exists)
            return Answer(request_id)
        case _:
            where = (task.change_stream, task.consumer, task.token)
            if task.work is None:
                read = engine.consume_partition(*where, task.statements)
            else:
                read = engine.process_partition(*where, function_named(task.work))
            return Answer(request_id, partition=read)
