"""The operator that consumes many streams in one Spark job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.errors import CdcError, InvalidRequest
from airflow_provider_cdc.engine.core.figures import counted
from airflow_provider_cdc.engine.core.names import stream_key
from airflow_provider_cdc.engine.core.near_names import near_names
from airflow_provider_cdc.engine.core.shown_values import shown
from airflow_provider_cdc.engine.core.summaries import names_text
from airflow_provider_cdc.hooks.failures import CdcJobFailed, task_errors, task_failure
from airflow_provider_cdc.hooks.registry_reach import check_reach
from airflow_provider_cdc.jobs import model as jobs
from airflow_provider_cdc.jobs.answer_lines import results_line
from airflow_provider_cdc.jobs.answers import read_answer, remove_answer, write_answer
from airflow_provider_cdc.jobs.model import ConsumptionResult, JobError

from .arguments import parse_int
from .base import ConsumingOperator
from .consumed import Consumed, written
from .consumption_tasks import consumption_task, streams_read
from .identities import default_consumer, once_for_run
from .outcome import outcome_result

if TYPE_CHECKING:
    from airflow.sdk import Context

_FIELDS = ("stream", "sql", "apply", "consumer", "max_commits", "max_bytes")
_REQUEST_ID_CHARACTERS = 32


class ConsumeStreams(ConsumingOperator):
    """Run many consumptions in one Spark job, each exactly once and on its own.

    Each consumption is what one ``ConsumeStream`` would do: it begins, commits and fails by itself.
    The job runs ``parallelism`` of them at once, each on a session of its own. A failure stops none
    of the others. When all have ended, the task fails if one failed, and names those that did. A
    retry runs only what is left: an earlier attempt of the same run may have consumed the rest.

    A consumption whose streams have no data does not run. If none has data, no Spark job is
    started. Consumptions whose statements write to the same table run one after the other.

    Returns (XCom) ``consumptions``: for each one ``consumer``, ``streams``, and its ``outcome`` as
    ``ConsumeStream`` returns it, or ``None`` if its streams had no data.

    :param consumptions: a mapping for each consumption, with the arguments ``stream``, ``sql`` or
        ``apply``, ``consumer``, ``max_commits`` and ``max_bytes`` of ``ConsumeStream`` (templated;
        ``.sql`` files). No two of them read the same stream. The consumer is by default that of the
        task, followed by the names of the streams: so the order of the list may change
    :param parallelism: how many consumptions run at once, 1 or more (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("consumptions", "parallelism", "conn_id")
    template_ext: Sequence[str] = (".sql",)

    def __init__(
        self,
        *,
        consumptions: Sequence[Mapping[str, Any]],
        parallelism: int | str = jobs.PARALLELISM,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.consumptions = consumptions
        self.parallelism = parallelism

    def execute(self, context: Context) -> dict[str, Any]:
        """Check the arguments and the streams without a JVM, run what has data, and wait for all.

        :raises AirflowFailException: an argument is wrong, or no retry can help any consumption
            that failed
        :raises CdcJobFailed: a consumption failed, and a retry may help
        """
        with task_errors():
            tasks = self._tasks(context)
            parallelism = parse_int(self.parallelism)
            job = jobs.ConsumeStreams((), jobs.PARALLELISM if parallelism is None else parallelism)
            check_reach(self.hook)
            earlier = self._earlier(context)
            found = self._without_spark([task for task in tasks if task.consumer not in earlier])
        waiting = tuple(task for task in tasks if task.consumer not in {*earlier, *found})
        if earlier:
            count = counted(len(earlier), "consumption")
            self.log.info("%s: an earlier attempt of this run has consumed", count)
        if waiting:
            answer = self.hook.submit(
                jobs.ConsumeStreams(waiting, job.parallelism), context=context
            )
            found |= _by_consumer(answer.consumptions)
        results = [(earlier | found).get(task.consumer) for task in tasks]
        return self._ended([each for each in results if each is not None], tasks, context)

    def _tasks(self, context: Context) -> list[jobs.ConsumeStream]:
        given: Any = self.consumptions
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
            raise InvalidRequest(
                "consumptions",
                "are not a list",
                cause=f"expected a list of mappings, found {shown(given)}",
                fix='write consumptions=[{"stream": "...", "sql": "..."}, ...]',
            )
        tasks = [_task_of(each, context) for each in given]
        _check_once("consumer", (task.consumer for task in tasks), "give each one its own")
        return tasks

    def _without_spark(self, tasks: Sequence[jobs.ConsumeStream]) -> dict[str, ConsumptionResult]:
        """The results of those of ``tasks`` that need no Spark: what cannot run, and what has no
        data.
        """
        catalog = self.hook.catalog()
        _, registered = catalog.registered(())
        found, reads = {}, {}
        for task in tasks:
            try:
                read = streams_read(task, registered, catalog)
                reads[task.consumer] = tuple(dict.fromkeys(read))
            except CdcError as error:
                failure = JobError(error.kind, str(error), error.retryable)
                found[task.consumer] = _result_of(task, error=failure)
        every = [name for names in reads.values() for name in names]
        _check_once("stream", every, "let one consumption read it, or create another stream")
        with_work = catalog.streams_with_work(every)
        for task in tasks:
            if with_work.isdisjoint(reads.get(task.consumer, with_work)):
                found.setdefault(task.consumer, _result_of(task))
        return found

    def _earlier(self, context: Context) -> dict[str, ConsumptionResult]:
        """What earlier attempts of this run consumed, before one of their consumptions failed."""
        settings = self.hook.settings
        answer = read_answer(settings.state, _kept_id(context), settings.store_options)
        return {} if answer is None else _by_consumer(answer.consumptions)

    def _ended(
        self,
        results: Sequence[ConsumptionResult],
        tasks: Sequence[jobs.ConsumeStream],
        context: Context,
    ) -> dict[str, Any]:
        if len(results) < len(tasks):
            raise CdcJobFailed("consume job: did not answer for all. Fix: run the task again.")
        self.log.info("%s", results_line(results))
        settings, kept_id = self.hook.settings, _kept_id(context)
        if failed := [each for each in results if each.error is not None]:
            done = tuple(each for each in results if each.outcome is not None)
            kept = jobs.Answer(kept_id, consumptions=done)
            write_answer(settings.state, kept, settings.store_options)
            raise _failure(failed, len(tasks))
        statements = {task.consumer: task.statements for task in tasks}
        consumed = [
            Consumed(
                each.outcome,
                written(each.outcome, statements[each.consumer]),
                each.lineage or jobs.Lineage(),
            )
            for each in results
            if each.outcome is not None
        ]
        self.announce(consumed, context)
        remove_answer(settings.state, kept_id, settings.store_options)
        return {"consumptions": [_shown(each) for each in results]}


def _task_of(given: object, context: Context) -> jobs.ConsumeStream:
    subject = f"consumption {shown(given)}"
    if not isinstance(given, Mapping):
        raise InvalidRequest(
            subject,
            "is not a mapping",
            cause="expected the arguments of a consumption by their names",
            fix='write {"stream": "...", "sql": "..."}',
        )
    for name in given:
        if name not in _FIELDS:
            near = near_names(name, _FIELDS) if isinstance(name, str) else []
            raise InvalidRequest(
                subject,
                f"has an unknown argument {name!r}",
                cause=f"expected {', '.join(_FIELDS)}",
                fix=f"write {near[0]}" if near else "leave it out",
            )
    if not given.get("stream"):
        raise InvalidRequest(
            subject, "names no stream", fix="name the stream, or the streams, that it reads"
        )
    arguments = {name: value for name, value in given.items() if name != "consumer"}
    task = consumption_task(
        **arguments,
        consumer=given.get("consumer") or (lambda streams: _default_consumer(context, streams)),
    )
    if not isinstance(task.consumer, str):
        raise InvalidRequest(
            subject, "has a consumer that is not text", fix="write its name, or leave it out"
        )
    return task


def _default_consumer(context: Context, streams: Sequence[str]) -> str:
    return default_consumer(context, "+".join(map(stream_key, streams)))


def _check_once(what: str, names: Iterable[str], fix: str) -> None:
    """Refuse a name that several consumptions have; they would undo each other.

    :raises InvalidRequest: names the first one
    """
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidRequest(
                f"{what} {name}",
                "is in several consumptions",
                cause=f"expected each {what} in one consumption, found it in {count}",
                fix=fix,
            )


def _kept_id(context: Context) -> str:
    """The id under which the results of a run are kept between its attempts."""
    return once_for_run(context, "consumptions")[:_REQUEST_ID_CHARACTERS]


def _result_of(task: jobs.ConsumeStream, **ended: Any) -> ConsumptionResult:
    return ConsumptionResult(task.consumer, task.streams, **ended)


def _by_consumer(results: Iterable[ConsumptionResult]) -> dict[str, ConsumptionResult]:
    return {each.consumer: each for each in results}


def _failure(failed: Sequence[ConsumptionResult], count: int) -> Exception:
    errors = [each.error for each in failed if each.error is not None]
    causes = " | ".join(f"{each.consumer}: {each.error.message}" for each in failed if each.error)
    names = names_text((each.consumer for each in failed), "consumption")
    error = CdcError(
        counted(count, "consumption"),
        f"{len(failed):,} failed, {names}",
        cause=causes,
        fix="correct what failed and run the task again: it runs only what is left",
    )
    return task_failure(str(error), retryable=any(each.retryable for each in errors))


def _shown(result: ConsumptionResult) -> dict[str, Any]:
    outcome = None if result.outcome is None else outcome_result(result.outcome)
    return {"consumer": result.consumer, "streams": list(result.streams), "outcome": outcome}
