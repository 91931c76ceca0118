"""Why a request has no data to show, and what to do."""

from __future__ import annotations

from dataclasses import dataclass


class NoAnswer(Exception):
    """A request that cannot be answered, because of a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.problem)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Problem:
    """What is missing, to what, and what to do. ``status`` is the HTTP status of the answer."""

    status: int
    problem: str
    fix: str

    @classmethod
    def no_connection(cls, conn_id: str) -> Problem:
        """There is no connection of this id, or it has another type."""
        return cls(
            404,
            f"Connection {conn_id} was not found, or is not of the type cdc.",
            "Create it, or choose another connection.",
        )

    @classmethod
    def malformed(cls, reason: str) -> Problem:
        """The connection is incomplete."""
        return cls(409, reason, "Correct the connection.")

    @classmethod
    def no_snapshot(cls, conn_id: str) -> Problem:
        """No monitor has written a snapshot."""
        return cls(
            404,
            f"No monitor has checked the streams of {conn_id} yet.",
            "Switch on its DAG. To make one, put this into a file of DAGs:"
            " stale_stream_monitor([LogNotifier()]) from"
            " airflow_provider_cdc.dag_factories.monitor and"
            f" airflow_provider_cdc.notifications.log, with conn_id={conn_id!r}.",
        )

    @classmethod
    def unreachable(cls, conn_id: str, error: str) -> Problem:
        """The API server cannot read the state folder."""
        return cls(
            503,
            f"The API server cannot read the state folder of {conn_id}: {error}.",
            "The page reads three files of that folder. Give the API server the address and the"
            " credentials that workers have, or mount the folder on its machine. The streams"
            " themselves are not affected.",
        )

    @classmethod
    def no_such_stream(cls, stream: str) -> Problem:
        """The snapshot has no such stream."""
        return cls(
            404,
            f"The last check found no stream {stream}.",
            "It was dropped or renamed, or was created after the last check.",
        )

    @classmethod
    def no_action_dag(cls, dag_id: str, conn_id: str) -> Problem:
        """The DAG that does an action is missing."""
        return cls(
            409,
            f"There is no DAG {dag_id}.",
            "Put this into a file of DAGs: stream_actions() from"
            f" airflow_provider_cdc.dag_factories.actions, with conn_id={conn_id!r}.",
        )

    @classmethod
    def paused(cls, dag_id: str) -> Problem:
        """The DAG that does an action would not run."""
        return cls(409, f"DAG {dag_id} is paused.", "Unpause it, then try again.")

    @classmethod
    def wrong_fields(cls, action: str) -> Problem:
        """The body of a request has not the fields of its action."""
        return cls(
            422,
            f"The request for {action} does not have the fields of this action.",
            "Give version for rewind, keep for abort, target and key for recover, and only stream"
            " for advance and maintain.",
        )
