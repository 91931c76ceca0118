"""The operator that keeps every change of a table for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.change_feed.feed_request import FeedEdge
from airflow_provider_cdc.engine.core.consumption.batches import BatchLimit
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.hooks.registry_reach import reached_errors
from airflow_provider_cdc.jobs import model as jobs

from .arguments import parse_bool, parse_int, parse_text
from .base import ConsumingOperator
from .consumed import Consumed, copying

if TYPE_CHECKING:
    from airflow.sdk import Context


class ArchiveChanges(ConsumingOperator):
    """Append every change of a table that is not archived yet to its archive, exactly once.

    The first run creates the archive and the stream that fills it. A retry, and the next run after
    a killed one, finish what was begun.

    Returns (XCom) ``archive``, ``table``, ``stream``, ``after_version``, ``through_version``,
    ``rows`` (the changes of this run) and ``has_more``.

    :param table: name or path of a Delta table (templated)
    :param archive: name or path of the archive (templated)
    :param from_version: for a new archive, the first version whose changes it holds (templated)
    :param from_timestamp: the same as a time (templated)
    :param bootstrap: a new archive begins with all rows of the table (templated)
    :param max_commits: archive at most this many commits in a run (templated)
    :param max_bytes: archive only the first commits that together added and removed at most this
        many bytes of files (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "table",
        "archive",
        "from_version",
        "from_timestamp",
        "bootstrap",
        "max_commits",
        "max_bytes",
        "conn_id",
    )

    def __init__(
        self,
        *,
        table: str,
        archive: str,
        from_version: int | str | None = None,
        from_timestamp: str | None = None,
        bootstrap: bool | str = True,
        max_commits: int | str | None = None,
        max_bytes: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.archive = archive
        self.from_version = from_version
        self.from_timestamp = from_timestamp
        self.bootstrap = bootstrap
        self.max_commits = max_commits
        self.max_bytes = max_bytes

    def execute(self, context: Context) -> dict[str, Any]:
        """Archive the changes.

        :raises AirflowFailException: an argument is wrong, the archive is another table or was
            changed by hand, or changes were lost
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            limit = BatchLimit(parse_int(self.max_commits), parse_int(self.max_bytes))
            task = jobs.ArchiveChanges(
                self.table,
                self.archive,
                parse_int(self.from_version),
                parse_text(self.from_timestamp),
                parse_bool(self.bootstrap),
                limit.max_commits,
                limit.max_bytes,
            )
            FeedEdge("from", task.from_version, task.from_timestamp).check_single(
                f"archive {task.archive}"
            )
        answer = self.hook.submit(task, context=context)
        found = answer.archived
        if found is None:
            raise CdcJobFailed("archive: answered without an outcome. Fix: run the task again.")
        lineage = answer.lineage or jobs.Lineage()
        self.announce(
            [Consumed(batch, copying(batch), lineage) for batch in found.batches], context
        )
        return {
            "archive": found.archive,
            "table": found.table,
            "stream": found.stream,
            "after_version": found.after_version,
            "through_version": found.through_version,
            "rows": found.rows,
            "has_more": found.has_more,
        }
