"""The operator that keeps streams from going stale."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.model import to_json
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.jobs import model as jobs

from .stream import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class MaintainStreams(StreamOperator):
    """Extend the retention of what the streams of a connection have not consumed, and take back
    what is not needed any more (seed 000, data retention).

    To be run on a timer, once a day or more often; an additional run does nothing.

    Returns (XCom) ``refreshed`` and ``sources``, each with what was found and done at one table.

    :param ahead: how much later the next run ends at the latest; twice the DAG's interval is good
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("conn_id",)

    def __init__(self, *, ahead: timedelta = timedelta(days=2), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ahead = ahead

    def execute(self, context: Context) -> dict[str, Any]:
        """Do the maintenance; the retry does what is left.

        :raises AirflowFailException: the job failed for good
        :raises CdcJobFailed: a retry may help; so it may where a table could not be changed
        """
        answer = self.hook.submit(jobs.Maintain(self.ahead), context=context)
        if answer.maintenance is None:
            raise CdcJobFailed("maintenance: answered without a report. Fix: run the task again.")
        problems = [source for source in answer.maintenance.sources if source.problem]
        for source in problems:
            self.log.error("%s: %s", source.location, source.problem)
        if problems:
            raise CdcJobFailed(
                f"maintenance: could not change {problems[0].location}. Cause:"
                f" {problems[0].problem}. Fix: let the principal of the job alter the table."
            )
        found: dict[str, Any] = json.loads(to_json(answer.maintenance))
        return found
