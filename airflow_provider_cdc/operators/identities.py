"""The identities of a task: as a consumer, and for work that it does once in a run of its DAG."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from airflow_provider_cdc.engine.core.names import CONSUMER_NAME_MAX_CHARACTERS

if TYPE_CHECKING:
    from airflow.sdk import Context


def once_for_run(context: Context, *what: object) -> str:
    """The id of work that a task does once in a run of its DAG, even if the task runs again.

    :param what: the arguments that identify the work; they are checked elsewhere
    """
    instance = context["ti"]
    known_by = [instance.dag_id, instance.task_id, instance.map_index, instance.run_id, *what]
    return sha256(json.dumps(known_by, default=repr).encode()).hexdigest()


def run_of(context: Context) -> str:
    """The run of the DAG that partitions are handed out to."""
    instance = context["ti"]
    return f"{instance.dag_id}/{instance.run_id}"


def default_consumer(context: Context, *what: str) -> str:
    """The consumer of a task that does not name one: ``<dag_id>/<task_id>``, and ``/<map_index>``
    if the task is mapped. It is the same in a retry and in the next run.

    :param what: the part of the task's work that the consumer does, if the task has several

    Airflow's ids may have dots, but no slash, so two tasks are never one consumer. If they were,
    each would undo what the other began. If the text is longer than the name of a consumer may be,
    it ends in a digest.
    """
    instance = context["ti"]
    consumer = f"{instance.dag_id}/{instance.task_id}"
    if instance.map_index is not None and instance.map_index >= 0:
        consumer = f"{consumer}/{instance.map_index}"
    consumer = "/".join((consumer, *what))
    if len(consumer) <= CONSUMER_NAME_MAX_CHARACTERS:
        return consumer
    digest = sha256(consumer.encode()).hexdigest()
    return f"{consumer[: CONSUMER_NAME_MAX_CHARACTERS - len(digest) - 1]}.{digest}"
