"""The operators of upsert tables: changes are written, and applied later (seed 004)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_cdc.jobs import model as jobs

from .stream import ConsumingOperator, StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class WriteChanges(StreamOperator):
    """Write the rows of a query as changes of an upsert table, once for each run of the DAG.

    Each row has the key, ``_CHANGE_TYPE`` (UPSERT or DELETE), the values and, where there is an
    order, ``_CHANGE_SEQUENCE_NUMBER``. A retry after the write writes nothing; the same task of the
    same run writes again where its query is another one.

    :param table: the upsert table (templated)
    :param query: the SELECT of the changes (templated; ``.sql`` files)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "query", "conn_id")
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"query": "sql"}

    def __init__(self, *, table: str, query: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.query = query

    def execute(self, context: Context) -> None:
        """Write the changes.

        :raises AirflowFailException: a column or a row does not fit; nothing was written
        :raises CdcJobFailed: a retry may help
        """
        ti = context["ti"]
        # With the query: a task that is cleared after its query was corrected writes again.
        known_by = [ti.dag_id, ti.task_id, ti.map_index, ti.run_id, self.table, self.query]
        write_id = sha256(json.dumps(known_by).encode()).hexdigest()
        self.hook.submit(jobs.WriteChanges(self.table, self.query, write_id), context=context)


class ApplyUpserts(ConsumingOperator):
    """Apply the changes that wait for an upsert table, exactly once; nothing where none waits.

    Returns (XCom) the outcome, as ``ConsumeStream`` does, or None.

    :param table: the upsert table (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "conn_id")

    def __init__(self, *, table: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Apply the changes; a retry finishes what an attempt began.

        :raises AirflowFailException: there is no such upsert table
        :raises CdcJobFailed: a retry may help; the changes wait, the table is as it was
        """
        outcome = self.hook.submit(jobs.ApplyUpserts(self.table), context=context).outcome
        return None if outcome is None else self.announced(outcome, context)
