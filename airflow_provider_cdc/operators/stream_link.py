"""The link from a task instance to the page of its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

from airflow_provider_cdc.hooks.streams_page import address_in_airflow

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class StreamPageLink(BaseOperatorLink):
    """A link to the stream of an operator, or to all streams if the operator names several."""

    name = "Stream"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The path of the page, with the operator's connection and stream."""
        names = getattr(operator, "stream", None)
        if isinstance(names, list | tuple) and len(names) == 1:
            names = names[0]
        stream = names if isinstance(names, str) else None
        conn_id: str = getattr(operator, "conn_id")  # noqa: B009 - an operator of any class
        return address_in_airflow(conn_id, stream)
