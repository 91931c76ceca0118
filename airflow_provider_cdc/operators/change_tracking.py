"""The operator that switches on what records the changes of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.hooks.registry_reach import reached_errors
from airflow_provider_cdc.jobs import model as jobs

from .arguments import parse_bool
from .base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class EnableChangeTracking(StreamOperator):
    """Record the changes of a table from now on: by row tracking, by Delta's feed, or by both.

    Row tracking is enough for streams and for the change feed of this package. The first stream on
    a table switches it on by itself. A retry changes nothing that is on already.

    Returns (XCom) ``table``, ``row_tracking_since`` and ``change_feed_since``: the versions from
    which on the changes are recorded, or ``None``.

    :param table: name or path of a Delta table (templated)
    :param row_tracking: switch ``delta.enableRowTracking`` on (templated)
    :param change_feed: switch ``delta.enableChangeDataFeed`` on (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("table", "row_tracking", "change_feed", "conn_id")

    def __init__(
        self,
        *,
        table: str,
        row_tracking: bool | str = True,
        change_feed: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.row_tracking = row_tracking
        self.change_feed = change_feed

    def execute(self, context: Context) -> dict[str, Any]:
        """Switch it on.

        :raises AirflowFailException: the table is missing, or has a column whose name the feed
            needs
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            task = jobs.EnableChangeTracking(
                self.table,
                parse_bool(self.row_tracking),
                parse_bool(self.change_feed),
            )
        answer = self.hook.submit(task, context=context)
        assert answer.tracking is not None
        return {
            "table": answer.tracking.table,
            "row_tracking_since": answer.tracking.row_tracking_since,
            "change_feed_since": answer.tracking.change_feed_since,
        }
