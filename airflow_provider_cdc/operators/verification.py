"""The operator that checks whether a target equals its source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_cdc.engine.core.arguments.one_or_several import one_or_several
from airflow_provider_cdc.engine.core.figures import counted
from airflow_provider_cdc.engine.core.model.json_text import to_json
from airflow_provider_cdc.engine.core.verification.verification import Verification
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.hooks.registry_reach import reached_errors
from airflow_provider_cdc.jobs import model as jobs

from .arguments import parse_bool
from .base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class VerifyTarget(StreamOperator):
    """Check whether a target equals the source of a stream at the version that the stream has
    consumed. The next check reads only what changed since then.

    The task fails if the target differs, unless it heals it. The log names at most 100 keys.

    Returns (XCom) ``version``, ``verified_through``, ``differing_keys``, ``differences``,
    ``is_incremental``, ``bytes_read``, ``bytes_total`` and ``is_healed``.

    :param stream: the stream that the target is filled from (templated)
    :param target: name or path of the target: a copy, an archive or an upsert table (templated)
    :param key: the column or columns that identify a row; not for an archive or an upsert table
        (templated)
    :param heal: write the rows that differ (templated)
    :param full: compare all rows, as the first check does (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("stream", "target", "key", "heal", "full", "conn_id")

    def __init__(
        self,
        *,
        stream: str,
        target: str,
        key: str | Sequence[str] | None = None,
        heal: bool | str = False,
        full: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.target = target
        self.key = key
        self.heal = heal
        self.full = full

    def execute(self, context: Context) -> dict[str, Any]:
        """Check the target.

        :raises AirflowFailException: the target differs and was not healed, or an argument is wrong
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            key = None
            if self.key is not None:
                key = one_or_several(f"target {self.target}", "key", self.key)
            task = jobs.VerifyTarget(
                self.stream, self.target, key, parse_bool(self.heal), parse_bool(self.full)
            )
        found = self.hook.submit(task, context=context).verification
        if found is None:
            raise CdcJobFailed("verification: answered without a result. Fix: run the task again.")
        if not found.is_equal:
            raise AirflowFailException(
                f"target {found.target}: differs from its source in"
                f" {counted(found.differing_keys, 'key')} at version {found.version} of stream"
                f" {found.stream}; the log of the job names them. Fix: find out what changed the"
                " target, and run VerifyTarget with heal=True."
            )
        return _result(found)


def _result(found: Verification) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(to_json(found))
    return {**result, "is_healed": result.pop("healed") is not None}
