"""Runs the statements of consumptions by Spark, each of them at most once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from ...consumption.ports import Failure
from ...consumption.statement_errors import refused
from ...core.consumption.source_notes import TakenVersions
from ...core.names import quote
from ...core.sql.statements import Statement, text_to_run
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ..session.failures import first_line, has_ended, message, reason
from ..session.idempotent_writes import idempotent_write, marked_commit, sources_noted
from ..session.session_settings import any_version, settings
from ..tables.log_stores import warn_of_one_driver

_EXPLAIN_FAILED = "Error occurred during query planning:"
_WRITTEN_BY_DELTA = ("delta.generationExpression", "delta.identity.start")
_EXISTS = ("TABLE_OR_VIEW_ALREADY_EXISTS", "DELTA_TABLE_ALREADY_EXISTS")


class SparkWriter:
    """A :class:`StatementWriter` that lets Delta skip what a table has recorded."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files

    def failure(self, error: Exception) -> Failure:
        """What ``error``, raised by Spark, shows about its statement."""
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        return Failure(
            reason=reason(error),
            has_ended=has_ended(error),
            is_refusal=isinstance(error, AnalysisException),
            table_exists=(condition or "").startswith(_EXISTS),
        )

    def default_source(self) -> str | None:
        """The data source of a new table if the statement does not name one."""
        return self._spark.conf.get("spark.sql.sources.default")

    def check(self, statement: Statement, views: Mapping[str, str]) -> None:
        """Let Spark analyse ``statement`` without running it.

        :raises InvalidStatement: Spark cannot parse or resolve it
        """
        text = f"EXPLAIN {text_to_run(statement, views, created=False)}"
        try:
            plan = self._spark.sql(text).collect()
        except PySparkException as error:
            raise refused(statement, first_line(error), text) from None
        found = "\n".join(row[0] for row in plan)
        if found.startswith(_EXPLAIN_FAILED):
            # EXPLAIN returns what it cannot plan as text.
            cause = message(found.removeprefix(_EXPLAIN_FAILED), has_plan=True)
            raise refused(statement, cause.partition("\n")[0], text)

    def run(
        self, text: str, location: str, app_id: str, version: int, taken: Sequence[TakenVersions]
    ) -> None:
        """Run ``text`` with the transaction ``version`` of ``app_id``, at most once."""
        warn_of_one_driver(self._spark, location)
        with idempotent_write(self._spark, app_id, version), sources_noted(self._spark, taken):
            self._spark.sql(text)

    def record(
        self,
        location: str,
        app_id: str,
        version: int,
        taken: Sequence[TakenVersions] | None = None,
    ) -> None:
        """Commit the transaction ``version`` of ``app_id`` without changing a row."""
        table = f"delta.{quote(location)}"
        columns = ", ".join(quote(name) for name in self._writable_columns(location))
        noted = nullcontext() if taken is None else sources_noted(self._spark, taken)
        with idempotent_write(self._spark, app_id, version), noted:
            self._spark.sql(
                f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {table} WHERE 1 = 0"
            )

    def restore(self, location: str, version: int, mark: str) -> None:
        """Restore the table to ``version``, in a commit with ``mark`` as user metadata."""
        whole = settings(self._spark, {"spark.sql.files.ignoreMissingFiles": "false"})
        with any_version(self._spark), whole, marked_commit(self._spark, mark):
            self._spark.sql(
                f"RESTORE TABLE delta.{quote(location)} TO VERSION AS OF {int(version)}"
            )

    def create(self, text: str, mark: str) -> None:
        """Create an empty table by ``text``, in a commit with ``mark`` as user metadata."""
        with marked_commit(self._spark, mark):
            self._spark.sql(text)

    def _writable_columns(self, location: str) -> list[str]:
        metadata = DeltaLog(location, self._files).newest_state().metadata
        return [
            field["name"]
            for field in json.loads(metadata["schemaString"])["fields"]
            if not any(key in (field.get("metadata") or {}) for key in _WRITTEN_BY_DELTA)
        ]
