"""The status snapshot and the lags of a connection, read by the API server."""

from __future__ import annotations

import logging
from collections.abc import Collection

from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.monitoring.lag_history import LagPoint
from airflow_provider_cdc.engine.core.monitoring.moves import Move
from airflow_provider_cdc.engine.core.monitoring.status_snapshot import StatusSnapshot
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.status_snapshots import StatusSnapshots

from .connections import settings_of
from .problems import NoAnswer, Problem

log = logging.getLogger(__name__)


def snapshot_of(conn_id: str) -> StatusSnapshot:
    """The newest snapshot of the streams of a connection.

    :raises NoAnswer: no monitor has written one, or it cannot be read
    """
    try:
        found = _snapshots(conn_id).newest()
    except NoAnswer:
        raise
    except Exception as error:
        # The text of a store's error may hold an address with a token, so only the log has it.
        log.warning("The state folder of %s cannot be read", conn_id, exc_info=True)
        raise NoAnswer(Problem.unreachable(conn_id, type(error).__name__)) from None
    if found is None:
        raise NoAnswer(Problem.no_snapshot(conn_id))
    return found


def lags_of(conn_id: str, stream_ids: Collection[str]) -> dict[str, tuple[LagPoint, ...]]:
    """The lags of streams over the last days; empty if they cannot be read."""
    try:
        points = _snapshots(conn_id).history().points
        return {one: points[one] for one in stream_ids if one in points}
    except Exception:
        log.warning("The lags of the streams of %s cannot be read", conn_id, exc_info=True)
        return {}


def moves_of(conn_id: str, stream_id: str) -> tuple[Move, ...]:
    """The moves of a stream over the last days; empty if they cannot be read."""
    try:
        return _snapshots(conn_id).moves().moves.get(stream_id, ())
    except Exception:
        log.warning("The moves of the streams of %s cannot be read", conn_id, exc_info=True)
        return ()


def _snapshots(conn_id: str) -> StatusSnapshots:
    """The files of a connection's state folder; raises ``NoAnswer``."""
    try:
        settings = settings_of(conn_id)
    except InvalidRequest as error:
        raise NoAnswer(Problem.malformed(str(error))) from None
    if settings is None:
        raise NoAnswer(Problem.no_connection(conn_id))
    return StatusSnapshots(settings.state, Files(settings.store_options))
