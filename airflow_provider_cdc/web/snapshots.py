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


def snapshots_of(conn_id: str) -> StatusSnapshots:
    """The files of a connection's state folder.

    :raises NoAnswer: there is no such connection, or it is malformed or cannot be read
    """
    try:
        settings = settings_of(conn_id)
    except InvalidRequest as error:
        raise NoAnswer(Problem.malformed(str(error))) from None
    except Exception as error:
        raise _unreachable(conn_id, error) from None
    if settings is None:
        raise NoAnswer(Problem.no_connection(conn_id))
    return StatusSnapshots(settings.state, Files(settings.store_options))


def snapshot_in(snapshots: StatusSnapshots, conn_id: str) -> StatusSnapshot:
    """The newest snapshot of the streams of a connection.

    :raises NoAnswer: no monitor has written one, or it cannot be read
    """
    try:
        found = snapshots.newest()
    except Exception as error:
        raise _unreachable(conn_id, error) from None
    if found is None:
        raise NoAnswer(Problem.no_snapshot(conn_id))
    return found


def lags_in(
    snapshots: StatusSnapshots, stream_ids: Collection[str]
) -> dict[str, tuple[LagPoint, ...]]:
    """The lags of streams over the last days; empty if they cannot be read."""
    try:
        points = snapshots.history().points
    except Exception:
        log.warning("The lags of streams cannot be read", exc_info=True)
        return {}
    return {one: points[one] for one in stream_ids if one in points}


def moves_in(snapshots: StatusSnapshots, stream_id: str) -> tuple[Move, ...]:
    """The moves of a stream over the last days; empty if they cannot be read."""
    try:
        return snapshots.moves().moves.get(stream_id, ())
    except Exception:
        log.warning("The moves of streams cannot be read", exc_info=True)
        return ()


def _unreachable(conn_id: str, error: Exception) -> NoAnswer:
    # The text of a store's error may hold an address with a token, so only the log has it.
    log.warning("The state folder of %s cannot be read", conn_id, exc_info=True)
    return NoAnswer(Problem.unreachable(conn_id, type(error).__name__))
