"""The session settings under which Delta applies a write at most once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

from ...core.consumption.source_notes import TakenVersions, noted
from .session_settings import settings

_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_UNDER_NO_ID = {_APP_ID: None, _VERSION: None}
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@contextmanager
def idempotent_write(spark: SparkSession, app_id: str, version: int) -> Iterator[None]:
    """Write under ``app_id`` and ``version``; Delta skips a write that is already recorded.

    The settings belong to the session, so one write at a time runs under them. They are always
    cleared: a leaked setting would silently skip later writes.
    """
    with settings(spark, {_APP_ID: app_id, _VERSION: str(version)}):
        yield


@contextmanager
def marked_commit(spark: SparkSession, mark: str) -> Iterator[None]:
    """Commit with ``mark`` as user metadata, so that the engine finds its own commits again."""
    with settings(spark, {_USER_METADATA: mark, **_UNDER_NO_ID}):
        yield


@contextmanager
def sources_noted(spark: SparkSession, taken: Sequence[TakenVersions]) -> Iterator[None]:
    """Commit with a note of what a statement takes of its sources, beside the user's own metadata.

    It runs inside :func:`idempotent_write`, so no other thread changes the settings meanwhile.
    """
    own = spark.conf.get(_USER_METADATA, None)
    with settings(spark, {_USER_METADATA: noted(own, taken)}):
        yield


def plain_write(spark: SparkSession) -> AbstractContextManager[None]:
    """Write without an id of another thread, and without an id that was left in the session,
    because Delta would skip a write under such an id. An id that the writer itself sets still
    counts.
    """
    return settings(spark, _UNDER_NO_ID)
