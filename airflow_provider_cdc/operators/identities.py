"""What a task is known by: as a consumer, and as whoever did something in a run of its DAG."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from airflow_provider_cdc.engine.core.names import CONSUMER_NAME_MAX_CHARACTERS

if TYPE_CHECKING:
    from airflow.sdk import Context


def once_for_run(context: Context, *what: object) -> str:
    """The id under which a task does ``what`` once in a run of its DAG, however often it runs.

    :param what: arguments of the task, which whoever takes the request checks
    """
    instance = context["ti"]
    known_by = [instance.dag_id, instance.task_id, instance.map_index, instance.run_id, *what]
    return sha256(json.dumps(known_by, default=repr).encode()).hexdigest()


def default_consumer(context: Context) -> str:
    """The consumer that a task is unless it says otherwise: ``<dag_id>/<task_id>``, and
    ``/<map_index>`` where it is mapped. It is the same in a retry and in the next run.

    Airflow's ids may hold dots, but no slash: no two tasks are one consumer, of which each would
    undo what the other has begun. They may be longer than a consumer's name: then a digest takes
    the place of the end.
    """
    instance = context["ti"]
    consumer = f"{instance.dag_id}/{instance.task_id}"
    if instance.map_index is not None and instance.map_index >= 0:
        consumer = f"{consumer}/{instance.map_index}"
    if len(consumer) <= CONSUMER_NAME_MAX_CHARACTERS:
        return consumer
    digest = sha256(consumer.encode()).hexdigest()
    return f"{consumer[: CONSUMER_NAME_MAX_CHARACTERS - len(digest) - 1]}.{digest}"
