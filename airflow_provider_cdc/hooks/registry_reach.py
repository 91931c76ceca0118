"""Checks that a worker still reaches the registry in which a monitor has seen streams."""

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
    """As :func:`~..hooks.failures.task_errors`, except that a missing stream can be retried if the
    worker only does not reach the registry.

    :raises AirflowFailException: for an error that no retry can fix
    :raises CdcJobFailed: for an error that a retry can fix
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
    """Refuse a state folder without a registry if it had one before. A folder that is not mounted
    would get a second registry, whose streams would consume the same changes as those of the first.

    :raises CdcJobFailed: a monitor has seen streams of this connection, and there is no registry
    """
    if not hook.catalog().is_begun and knows_streams(hook.conn_id):
        raise _unreached(hook)


def _unreached(hook: CdcHook) -> CdcJobFailed:
    return CdcJobFailed(
        f"streams of {hook.conn_id}: cannot be seen any more. Cause: an earlier run of the monitor"
        " saw streams, and now the state folder holds no registry. Fix: let the worker reach the"
        f" state folder, or delete the Variable {variable_key(hook.conn_id)} where the connection"
        " is to lead to a new one."
    )
