"""Check that a worker still reaches the registry in which a monitor saw streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_cdc.engine.core.errors import RegistryNotFound, StreamNotFound
from airflow_provider_cdc.hooks.failures import CdcJobFailed, task_errors
from airflow_provider_cdc.hooks.stale_after_variable import knows_streams, variable_key

if TYPE_CHECKING:
    from airflow_provider_cdc.hooks.cdc import CdcHook


@contextmanager
def reached_errors(hook: CdcHook) -> Iterator[None]:
    """Turn errors of the engine into exceptions that Airflow handles.

    It does the same as :func:`~..hooks.failures.task_errors`, except for a missing stream: if the
    worker does not reach the registry, the task can be retried.

    :raises AirflowFailException: a retry cannot fix the error
    :raises CdcJobFailed: a retry can fix the error
    """
    with task_errors():
        try:
            yield
        except StreamNotFound as error:
            if isinstance(error, RegistryNotFound) and knows_streams(hook.conn_id):
                raise _unreached(hook) from error
            check_reach(hook)
            raise


def check_reach(hook: CdcHook) -> None:
    """Refuse a state folder without a registry if it had one before.

    The folder may not be mounted. Then it would get a second registry, and the streams of both
    registries would consume the same changes.

    :raises CdcJobFailed: a monitor saw streams of this connection, and now there is no registry
    """
    if not hook.catalog().is_begun and knows_streams(hook.conn_id):
        raise _unreached(hook)


def _unreached(hook: CdcHook) -> CdcJobFailed:
    return CdcJobFailed(
        f"streams of {hook.conn_id}: are missing. Cause: an earlier run of the monitor saw streams,"
        " and now the state folder holds no registry. Fix: let the worker reach the state folder,"
        f" or delete the Variable {variable_key(hook.conn_id)} if the connection now uses a new"
        " state folder."
    )
