"""The operators that prevent streams from going stale, and recover targets of stale streams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.arguments.intervals import interval_of
from airflow_provider_cdc.engine.core.arguments.one_or_several import one_or_several
from airflow_provider_cdc.engine.core.model.json_text import to_json
from airflow_provider_cdc.engine.core.retention.staleness import NEXT_MAINTENANCE
from airflow_provider_cdc.hooks.failures import CdcJobFailed, task_errors
from airflow_provider_cdc.hooks.registry_reach import check_reach
from airflow_provider_cdc.jobs import model as jobs

from .base import ConsumingOperator, StreamOperator
from .identities import default_consumer

if TYPE_CHECKING:
    from airflow.sdk import Context


class MaintainStreams(StreamOperator):
    """Extend the retention of sources for the streams of a connection, and end extensions that are
    no longer needed. Snowflake, data retention: a source keeps what its streams have not consumed,
    up to a limit.

    Run it on a timer, once a day or more often. An additional run does nothing.

    Returns (XCom) ``skipped``, and ``sources`` with what was found and done at each table.

    :param ahead: the longest time until the next run ends; twice the DAG's interval is a good value
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("conn_id",)

    def __init__(self, *, ahead: timedelta | str = NEXT_MAINTENANCE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ahead = ahead

    def execute(self, context: Context) -> dict[str, Any]:
        """Do the maintenance. A retry does the rest of the work.

        :raises AirflowFailException: the job failed, and a retry cannot help
        :raises CdcJobFailed: a retry may help; for example, a table could not be changed
        """
        with task_errors():
            ahead = interval_of(self.ahead, "ahead")
        check_reach(self.hook)
        answer = self.hook.submit(jobs.MaintainStreams(ahead), context=context)
        if answer.maintenance is None:
            raise CdcJobFailed("maintenance: answered without a report. Fix: run the task again.")
        problems = [source for source in answer.maintenance.sources if source.problem]
        for source in problems:
            self.log.error("%s: %s", source.location, source.problem)
        if problems:
            raise CdcJobFailed(
                f"maintenance: could not check or change {problems[0].location}. Cause:"
                f" {problems[0].problem}. Fix: remove the cause, let the principal of the job read"
                " and alter the table, and run the task again."
            )
        found: dict[str, Any] = json.loads(to_json(answer.maintenance))
        return found


class RecoverStream(ConsumingOperator):
    """Make a target equal to the source of a stream that went stale, and let the stream continue
    from there. It writes only rows that differ, in one consumption.

    Returns (XCom) the outcome, as ``ConsumeStream`` does.

    :param stream: the name of the stream (templated)
    :param target: name or path of the table to recover (templated)
    :param key: the column or columns that identify the rows of the target (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("stream", "target", "key", "conn_id")

    def __init__(
        self, *, stream: str, target: str, key: str | Sequence[str], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.target = target
        self.key = key

    def execute(self, context: Context) -> dict[str, Any]:
        """Recover the target. A retry finishes what an attempt began.

        :raises AirflowFailException: an argument is wrong
        :raises CdcJobFailed: a retry may help
        """
        with task_errors():
            key = one_or_several(f"target {self.target}", "key", self.key)
        task = jobs.RecoverStream(self.stream, self.target, key, default_consumer(context))
        return self.announced(self.hook.submit(task, context=context), context)
