"""The driver's side of consuming streams: one consumption, or several at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import TYPE_CHECKING

from airflow_provider_cdc.engine.core.consumption.shared_targets import chains
from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.names import name_key
from airflow_provider_cdc.engine.core.sql.statements import analyse

from .functions import check_consume, consume_by_function
from .job_errors import job_error
from .model import ConsumeStream, ConsumeStreams, ConsumptionResult

if TYPE_CHECKING:
    from airflow_provider_cdc.engine import Engine, Outcome

log = logging.getLogger(__name__)


def consume(engine: Engine, task: ConsumeStream) -> Outcome:
    """Run one consumption, by its statements or by its function.

    :raises CdcError: the errors of ``Engine.consume`` or of ``Engine.transaction``
    """
    check_consume(task)
    if task.apply is not None:
        return consume_by_function(engine, task)
    return engine.consume(
        task.statements,
        consumer=task.consumer,
        max_commits=task.max_commits,
        max_bytes=task.max_bytes,
    )


def consume_each(
    task: ConsumeStreams, streams: Collection[str], new_engine: Callable[[], Engine]
) -> tuple[ConsumptionResult, ...]:
    """Run the consumptions of ``task``, several at once. A failure stops none of the others.

    Those that write to the same table by SQL run one after the other. What a function writes to is
    not known before it runs.

    :param streams: the names of all registered streams
    :param new_engine: makes an engine on a session of its own; each thread takes one, because the
        settings under which a statement is applied once belong to the session
    :returns: the result of each consumption, in the order of the task
    """
    found: dict[int, ConsumptionResult] = {}
    own = local()

    def run(places: Sequence[int]) -> None:
        for place in places:
            found[place] = _result(task.consumptions[place], engine)

    def engine() -> Engine:
        if not hasattr(own, "engine"):
            own.engine = new_engine()
        made: Engine = own.engine
        return made

    together = chains([_targets(each, streams) for each in task.consumptions])
    if together:
        at_once = min(task.parallelism, len(together))
        with ThreadPoolExecutor(at_once, thread_name_prefix="consumption") as pool:
            # The list raises what ends the process, after the other threads have ended.
            list(pool.map(run, together))
    return tuple(found[place] for place in sorted(found))


def _result(task: ConsumeStream, engine: Callable[[], Engine]) -> ConsumptionResult:
    try:
        outcome = consume(engine(), task)
    except Exception as error:
        log.error("%s: did not consume %s", task.consumer, ", ".join(task.streams))
        failure = job_error(error, f"The consumption of {task.consumer}")
        return ConsumptionResult(task.consumer, task.streams, error=failure)
    return ConsumptionResult(task.consumer, task.streams, outcome)


def _targets(task: ConsumeStream, streams: Collection[str]) -> frozenset[str]:
    """The tables that the statements of ``task`` write to; none if they cannot be understood, and
    then they do not run either.
    """
    try:
        return frozenset(name_key(analyse(text, streams).target.sql) for text in task.statements)
    except CdcError:
        return frozenset()
